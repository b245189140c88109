"""Gemma 1, 2 and 3 (text): a LLaMA whose norms keep what is added to 1, with scaled word vectors and a gate of GELU.

Gemma 2 has a norm before and after each part, a window in every other layer, and caps on scores and logits. Gemma 3 has no
cap on scores but a norm on q and k, a window in five of six layers, and there another rotary base.
"""

import math

from ...i18n import Message
from ...model.config import Config
from . import llama
from .family import PLAIN, Family, TensorRow, linear, need
from .rotary_settings import RotaryEntry, read_rotary, write_rotary
from .setting_table import (
    ConfigReading,
    Foreign,
    Form,
    HfConfig,
    Holds,
    Rule,
    Setting,
    Table,
    Value,
    always,
    but,
    insist,
    only,
    required,
    word_of,
    written,
)

CLASSES = {"gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM"}
ACTIVATIONS = {"geglu-tanh": "gelu_new", "geglu": "gelu", "swiglu": "silu"}
HOLDS: Holds = PLAIN | dict(
    kind=("decoder",),
    position=("rotary",),
    norm=("rms-centred",),
    norm_place=("both", "pre"),
    feed_forward=tuple(ACTIVATIONS),
    bias=(False, "qkv out"),
    qk_norm=(None, "rms-centred"),
    mixer=("attention",),
    embedding_norm=(False,),
    head=("linear",),
)
for free in ("attention_scale", "softcap", "output_softcap", "window_base"):
    del HOLDS[free]


def member(config: Config) -> str:
    """Which of them the model is, as transformers names it."""
    return "gemma3_text" if config.qk_norm else "gemma2" if config.norm_place == "both" else "gemma"


def obstacles(config: Config) -> list[Message]:
    """Scaled embeddings, a scale of scores that is one over the root of a whole number, and what each version has not."""
    kind, found = member(config), []
    if config.embedding.scale != math.sqrt(config.width):
        found.append(need("embedding_scale = √width", config.embedding.scale))
    if config.width % config.n_head:
        found.append(need(Message("heads that divide the width"), f"n_head={config.n_head}"))
    if config.attention_scale is not None and config.attention_scale != round(config.attention_scale**-2) ** -0.5:
        found.append(need("attention_scale = 1 / √n", config.attention_scale))
    absent = {
        "gemma": ("softcap", "output_softcap", "window", "attention_scale"),
        "gemma2": (),
        "gemma3_text": ("softcap",),
    }
    for name in absent[kind]:
        if getattr(config, name) is not None:
            found.append(need(f"{name}=None", getattr(config, name)))
    if kind == "gemma3_text" and config.norm_place != "both":
        found.append(need("norm_place='both'", repr(config.norm_place)))
    if kind == "gemma" and config.feed_forward == "geglu":
        found.append(need("feed_forward='geglu-tanh'", repr(config.feed_forward)))
    if kind != "gemma3_text" and config.rotary.window_base is not None:
        found.append(need("window_base=None", config.rotary.window_base))
    return found


def read_activation(reading: ConfigReading) -> dict[str, Value]:
    """Return the gate; the first Gemma's own files say gelu and mean its approximation."""
    usual = "gelu_pytorch_tanh"
    word = reading.theirs.get("hidden_act" if reading.member == "gemma" else "hidden_activation", usual)
    word = usual if word == "gelu" and reading.member == "gemma" else word
    return dict(feed_forward=word_of(word, ACTIVATIONS))


def write_activation(config: Config) -> HfConfig:
    """Return it under both names."""
    word = ACTIVATIONS[config.feed_forward].replace("gelu_new", "gelu_pytorch_tanh")
    return dict(hidden_act=word, hidden_activation=word)


def read_windows(reading: ConfigReading) -> dict[str, Value]:
    """Return the window and the layers that have it: all but every second, or every sixth."""
    theirs, every = reading.theirs, 2
    if reading.member == "gemma3_text":
        every = theirs.get("sliding_window_pattern") or theirs.get("_sliding_window_pattern") or 6
    slides = [bool((i + 1) % every) for i in range(reading.ours["n_layer"])]
    if theirs.get("layer_types"):
        slides = [layer == "sliding_attention" for layer in theirs["layer_types"]]
    return llama.read_windows(theirs.get("sliding_window", 4096), slides)


def write_windows(config: Config) -> HfConfig:
    """Return them; where no layer has one, it is as long as the text."""
    window = config.context if config.window is None else config.window + 1
    return dict(sliding_window=window, layer_types=llama.write_windows(config))


def read_bases(reading: ConfigReading) -> dict[str, Value]:
    """Return the angles of layers with a window, which have another base, and of the others, as both versions write it."""
    theirs = reading.theirs
    told = theirs.get("rope_parameters") or {}
    far = dict(told.get("full_attention") or {}) | (theirs.get("rope_scaling") or {})
    far.setdefault("rope_theta", theirs.get("rope_theta", 1e6))
    near = dict(told.get("sliding_attention") or {})
    insist(near, dict(rope_type="default", partial_rotary_factor=1.0))
    told_base: Value = near.get("rope_theta", theirs.get("rope_local_base_freq", 1e4))
    base = float(told_base)
    angles = read_rotary(theirs | {"rope_scaling": None, "rope_parameters": far})
    return angles | ({"window_base": base} if "window" in reading.ours and reading.ours["window"] is not None else {})


def write_bases(config: Config) -> HfConfig:
    """Return both, one table in the other."""
    base = config.rotary.base if config.rotary.window_base is None else config.rotary.window_base
    if config.rotary.window_base is None and config.window is not None and config.rotary.scaling is not None:
        raise Foreign("a {family} scales no angles of layers with a window: give window_base", family="Gemma 3")
    theirs = write_rotary(config)
    near = {"rope_type": "default", "rope_theta": base}
    tables = dict(full_attention=theirs["rope_parameters"], sliding_attention=near)
    return theirs | dict(rope_parameters=tables, rope_local_base_freq=base)


def head_dim(reading: ConfigReading) -> int:
    """Return the width of a head where a file is silent: null is not silent, but means that heads divide the width."""
    return llama.divided(reading) if "head_dim" in reading.theirs else 256


def score_scale(scalar: Value, reading: ConfigReading) -> float | None:
    """Return what scores are multiplied by: 1 / √scalar; None where that is what any model does."""
    scale: float = scalar**-0.5
    return None if scalar == reading.theirs.get("head_dim", 256) else scale


def score_scalar(scale: Value, config: Config) -> int:
    """Return the whole number whose root divides scores."""
    return (config.head_width or config.width // config.n_head) if scale is None else round(scale**-2)


OLD_BASES = {"rotary_base": "rope_theta", "window_base": "rope_local_base_freq"}  # as messages name them
SETTINGS: Table = (
    written("architectures", lambda config: [CLASSES[member(config)]]),
    required("partial_rotary_factor", 1.0),
    # Null and false are one.
    required(
        "use_bidirectional_attention", lambda reading: reading.theirs.get("use_bidirectional_attention") and False
    ),
    *but(llama.SIZES, head_dim=head_dim, tie_word_embeddings=True),
    Rule(read_activation, write_activation),
    Rule(llama.read_bias, llama.write_bias),
    always(embedding_scale=lambda reading: math.sqrt(reading.ours["width"])),
    *only("gemma", always(norm_place="pre")),
    *only("gemma3_text", always(qk_norm="rms-centred"), required("attn_logit_softcapping", None)),
    *only(
        "gemma2",
        "gemma3_text",
        Setting("query_pre_attn_scalar", "attention_scale", 256, Form(score_scale, score_scalar)),
        Rule(read_windows, write_windows, llama.WINDOWS),
        written("use_bidirectional_attention", False),
    ),
    *only(
        "gemma2",
        Setting("attn_logit_softcapping", "softcap", 50.0),
        Setting("final_logit_softcapping", "output_softcap", 30.0),
    ),
    *only(
        "gemma3_text",
        written("attn_logit_softcapping", None),
        Setting("final_logit_softcapping", "output_softcap", None),
        Rule(read_bases, write_bases, OLD_BASES),
    ),
    *only("gemma", "gemma2", RotaryEntry()),
)


def rows(config: Config) -> list[TensorRow]:
    """Where each tensor lies."""
    both = config.norm_place == "both"
    norm = "pre_feedforward_layernorm" if both else "post_attention_layernorm"
    table = llama.stack(config, {"attention": ("self_attn", llama.looks)}, think_norm=norm)
    for i in range(config.n_layer if both else 0):
        for part, word in (("attention", "post_attention"), ("feed_forward", "post_feedforward")):
            table += linear(f"decoder.{i}.{part}_after_norm", f"model.layers.{i}.{word}_layernorm", bias=False)
    return table


GEMMA = Family(
    "Gemma",
    tuple(CLASSES),
    HOLDS,
    obstacles,
    SETTINGS,
    rows,
    ignored=llama.IGNORED,
    prefix="model.",
    head=llama.HEAD,
    repeats=llama.REPEATS,
    member=member,
)
