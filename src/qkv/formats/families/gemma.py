"""Gemma 1, 2 and 3 (text): a LLaMA with norms that store weight − 1, scaled embeddings and a GELU gate.

Gemma 2 has norms before and after each part, a window in every second layer, and caps on scores and logits. Gemma 3 has
a norm on q and k instead of capped scores, and a window in five of six layers, with another rotary base there.
"""

import math

from ...i18n import Message
from ...model.config import Config
from . import llama
from .family import TensorRow, linear, need, supports
from .rotary_settings import RotaryEntry, read_rotary, write_rotary
from .setting_table import (
    ConfigReading,
    Form,
    HfConfig,
    Rule,
    Setting,
    Unsupported,
    Value,
    activation_name,
    for_members,
    implied,
    require,
    required,
    with_defaults,
    write_only,
)

CLASSES = {"gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM"}
ACTIVATIONS = {"geglu-tanh": "gelu_new", "geglu": "gelu", "swiglu": "silu"}
SUPPORTED = supports(
    *("window", "embedding_scale", "attention_scale", "softcap", "output_softcap", "window_base"),
    norm=("rms-centred",),
    norm_place=("both", "pre"),
    feed_forward=tuple(ACTIVATIONS),
    bias=(False, "qkv out"),
    qk_norm=(None, "rms-centred"),
)


def member(config: Config) -> str:
    """Return transformers' model_type."""
    return "gemma3_text" if config.qk_norm else "gemma2" if config.norm_place == "both" else "gemma"


def obstacles(config: Config) -> list[Message]:
    """Requires scaled embeddings, a scale 1 / √n of scores, and no feature that a version lacks."""
    kind, needed = member(config), []
    if config.embedding.scale != math.sqrt(config.width):
        needed.append(need("embedding_scale = √width", config.embedding.scale))
    if config.width % config.n_head:
        needed.append(need(Message("heads that divide the width"), f"n_head={config.n_head}"))
    if config.attention_scale is not None and config.attention_scale != round(config.attention_scale**-2) ** -0.5:
        needed.append(need("attention_scale = 1 / √n", config.attention_scale))
    unsupported = {
        "gemma": ("softcap", "output_softcap", "window", "attention_scale"),
        "gemma2": (),
        "gemma3_text": ("softcap",),
    }
    for name in unsupported[kind]:
        if getattr(config, name) is not None:
            needed.append(need(f"{name}=None", getattr(config, name)))
    if kind == "gemma3_text" and config.norm_place != "both":
        needed.append(need("norm_place='both'", repr(config.norm_place)))
    if kind == "gemma" and config.feed_forward == "geglu":
        needed.append(need("feed_forward='geglu-tanh'", repr(config.feed_forward)))
    if kind != "gemma3_text" and config.rotary.window_base is not None:
        needed.append(need("window_base=None", config.rotary.window_base))
    return needed


def read_activation(reading: ConfigReading) -> dict[str, Value]:
    """Return the gate. Files of the first Gemma say gelu and mean its approximation."""
    default = "gelu_pytorch_tanh"
    activation = reading.hf_config.get("hidden_act" if reading.member == "gemma" else "hidden_activation", default)
    activation = default if activation == "gelu" and reading.member == "gemma" else activation
    return dict(feed_forward=activation_name(activation, ACTIVATIONS))


def write_activation(config: Config) -> HfConfig:
    """Return the activation under both names."""
    activation = ACTIVATIONS[config.feed_forward].replace("gelu_new", "gelu_pytorch_tanh")
    return dict(hidden_act=activation, hidden_activation=activation)


def read_windows(reading: ConfigReading) -> dict[str, Value]:
    """Return the window and its layers: all but every second or sixth."""
    hf_config, every = reading.hf_config, 2
    if reading.member == "gemma3_text":
        every = hf_config.get("sliding_window_pattern") or hf_config.get("_sliding_window_pattern") or 6
    return llama.read_windows(hf_config, [bool((i + 1) % every) for i in range(reading.settings["n_layer"])])


def write_windows(config: Config) -> HfConfig:
    """Return the windows; without one, it is as long as the context."""
    window = config.context if config.window is None else config.window + 1
    return dict(sliding_window=window, layer_types=llama.write_windows(config))


def read_bases(reading: ConfigReading) -> dict[str, Value]:
    """Return the angles, in both versions' formats. Layers with a window have another base."""
    hf_config = reading.hf_config
    rope = hf_config.get("rope_parameters") or {}
    global_rope = dict(rope.get("full_attention") or {}) | (hf_config.get("rope_scaling") or {})
    global_rope.setdefault("rope_theta", hf_config.get("rope_theta", 1e6))
    local_rope = dict(rope.get("sliding_attention") or {})
    require(local_rope, dict(rope_type="default", partial_rotary_factor=1.0))
    local_base: Value = local_rope.get("rope_theta", hf_config.get("rope_local_base_freq", 1e4))
    base = float(local_base)
    angles = read_rotary(hf_config | {"rope_scaling": None, "rope_parameters": global_rope})
    return angles | (
        {"window_base": base} if "window" in reading.settings and reading.settings["window"] is not None else {}
    )


def write_bases(config: Config) -> HfConfig:
    """Return both tables of angles."""
    base = config.rotary.base if config.rotary.window_base is None else config.rotary.window_base
    if config.rotary.window_base is None and config.window is not None and config.rotary.scaling is not None:
        raise Unsupported("a {family} scales no angles of layers with a window: give window_base", family="Gemma 3")
    hf_config = write_rotary(config)
    local_rope = {"rope_type": "default", "rope_theta": base}
    tables = dict(full_attention=hf_config["rope_parameters"], sliding_attention=local_rope)
    return hf_config | dict(rope_parameters=tables, rope_local_base_freq=base)


def head_dim(reading: ConfigReading) -> int:
    """Return the default width of a head. null is not the default: it means that heads divide the width."""
    return llama.default_head_width(reading) if "head_dim" in reading.hf_config else 256


def score_scale(scalar: Value, reading: ConfigReading) -> float | None:
    """Return the factor of scores, 1 / √scalar, or None if it is the usual one."""
    scale: float = scalar**-0.5
    return None if scalar == reading.hf_config.get("head_dim", 256) else scale


def score_scalar(scale: Value, config: Config) -> int:
    """Return the integer whose root divides scores."""
    return (config.head_width or config.width // config.n_head) if scale is None else round(scale**-2)


BASE_NAMES = {"rotary_base": "rope_theta", "window_base": "rope_local_base_freq"}  # for messages
SETTINGS = (
    write_only("architectures", lambda config: [CLASSES[member(config)]]),
    required("partial_rotary_factor", 1.0),
    # null and false are equal.
    required(
        "use_bidirectional_attention", lambda reading: reading.hf_config.get("use_bidirectional_attention") and False
    ),
    *with_defaults(llama.SIZES, head_dim=head_dim, tie_word_embeddings=True),
    Rule(read_activation, write_activation),
    Rule(llama.read_bias, llama.write_bias),
    implied(embedding_scale=lambda reading: math.sqrt(reading.settings["width"])),
    *for_members("gemma", implied(norm_place="pre")),
    *for_members("gemma3_text", implied(qk_norm="rms-centred"), required("attn_logit_softcapping", None)),
    *for_members(
        "gemma2",
        "gemma3_text",
        Setting("query_pre_attn_scalar", "attention_scale", 256, Form(score_scale, score_scalar)),
        Rule(read_windows, write_windows, llama.WINDOWS),
        write_only("use_bidirectional_attention", False),
    ),
    *for_members(
        "gemma2",
        Setting("attn_logit_softcapping", "softcap", 50.0),
        Setting("final_logit_softcapping", "output_softcap", 30.0),
    ),
    *for_members(
        "gemma3_text",
        write_only("attn_logit_softcapping", None),
        Setting("final_logit_softcapping", "output_softcap", None),
        Rule(read_bases, write_bases, BASE_NAMES),
    ),
    *for_members("gemma", "gemma2", RotaryEntry()),
)


def rows(config: Config) -> list[TensorRow]:
    has_both_norms = config.norm_place == "both"
    norm = "pre_feedforward_layernorm" if has_both_norms else "post_attention_layernorm"
    table = llama.decoder_rows(config, {"attention": ("self_attn", llama.attention_rows)}, feed_forward_norm=norm)
    for i in range(config.n_layer if has_both_norms else 0):
        for part, hf_part in (("attention", "post_attention"), ("feed_forward", "post_feedforward")):
            table += linear(f"decoder.{i}.{part}_after_norm", f"model.layers.{i}.{hf_part}_layernorm", bias=False)
    return table


GEMMA = llama.llama_family("Gemma", tuple(CLASSES), SUPPORTED, obstacles, SETTINGS, rows, member=member)
