"""Qwen3-Next: gated delta rule, and attention in every fourth layer, with gated, normalised and partly rotated heads.

Its norms store weight − 1. The mixtures of experts of its large models are not supported.
"""

from ...i18n import Message, _, all_of
from ...mixers.delta import NAMES
from ...model.config import Config
from ...model.config_checks import layer_pattern
from .family import TensorRow, need, supports
from .gemma import head_dim
from .llama import HEAD, IGNORED, SILU, SIZES, attention_rows, decoder_rows, llama_family
from .rotary_settings import RotaryEntry
from .setting_table import (
    ConfigReading,
    HfConfig,
    Rule,
    Setting,
    Unsupported,
    Value,
    required,
    when,
    with_defaults,
    write_only,
)

LAYER_TYPES = {"delta": "linear_attention", "attention": "full_attention"}  # ours -> theirs
SUPPORTED = supports(
    *("mixer", "rotary_fraction"),
    norm=("rms-centred",),
    bias=(False,),
    attention_gate=(True,),
    qk_norm=("rms-centred",),
)


def obstacles(config: Config) -> list[Message]:
    """Requires mixers of both kinds: without attention transformers' implementation fails."""
    fits = set(config.mixers) == {"delta", "attention"}
    return [] if fits else [need("mixer='delta×… attention'", repr(config.mixer))]


def refuse_experts(reading: ConfigReading) -> None:
    """Raise an error if a layer has a mixture of experts, by transformers' rule."""
    hf_config, layers = reading.hf_config, reading.settings["n_layer"]
    count, every = hf_config.get("num_experts", 512), hf_config.get("decoder_sparse_step", 1)
    dense = hf_config.get("mlp_only_layers") or ()
    mixed = [i for i in range(layers) if count and i not in dense and (i + 1) % every == 0]
    if mixed:
        sentence = _(
            "{some} of {all} layers of this Qwen3-Next have a mixture of {count} experts for a feed-forward: qkv reads "
            "those with one feed-forward per layer (num_experts=0)"
        )
        if "num_experts" not in hf_config:
            sentence = _(
                "this config.json lacks num_experts, which is {count} by default in transformers: {some} of "
                "{all} layers of this Qwen3-Next have a mixture of experts for a feed-forward, and qkv reads those with "
                "one feed-forward per layer (num_experts=0)"
            )
        raise Unsupported(sentence, some=len(mixed), all=layers, count=count)


def read_layers(reading: ConfigReading) -> dict[str, Value]:
    """Return the mixer of each layer; by default every fourth has attention."""
    hf_config, layers = reading.hf_config, reading.settings["n_layer"]
    every = hf_config.get("full_attention_interval") or 4
    default = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(layers)]
    layer_types = hf_config.get("layer_types") or default
    names = {layer_type: mixer for mixer, layer_type in LAYER_TYPES.items()}
    if unknown_type := next((layer_type for layer_type in layer_types if layer_type not in names), None):
        raise Unsupported(
            "layer_types names {word!r} in this config.json, which qkv doesn't know: it reads {known}",
            word=unknown_type,
            known=all_of(names),
        )
    if len(layer_types) != layers:
        raise Unsupported(
            "layer_types has length {count} in this config.json, but num_hidden_layers is {layers}: give one word for "
            "each layer",
            count=len(layer_types),
            layers=layers,
        )
    if "full_attention" not in layer_types:
        raise Unsupported(
            "no layer of this {family} attends, and qkv reads those in which some do", family="Qwen3-Next"
        )
    return dict(mixer=layer_pattern(tuple(names[layer_type] for layer_type in layer_types)))


def write_layers(config: Config) -> HfConfig:
    """Return transformers' type of each layer."""
    return dict(layer_types=[LAYER_TYPES[mixer] for mixer in config.mixers])


SETTINGS = (
    write_only("architectures", ["Qwen3NextForCausalLM"]),
    required("attention_bias", False, is_written=True),
    required("attn_output_gate", True),
    *with_defaults(SIZES, head_dim=head_dim),
    SILU,
    Rule(refuse_experts, lambda config: dict(num_experts=0, num_experts_per_tok=0, mlp_only_layers=[])),
    Rule(read_layers, write_layers, dict(mixer="layer_types")),
    *when(
        lambda reading: "delta" in reading.settings["mixer"],
        Setting("linear_key_head_dim", "state_width"),
        Setting("linear_num_value_heads", "n_state_head"),
        Setting("linear_value_head_dim", "state_head_width"),
        Setting("linear_num_key_heads", "n_state_group"),
        Setting("linear_conv_kernel_dim", "taps"),
    ),
    RotaryEntry(share=0.25),
)


def delta_rows(config: Config, prefix: str, hf_prefix: str) -> list[TensorRow]:
    """Return the rows of a delta layer: q, k, v and gate are interleaved by key head, and so are the rates."""
    heads, values, groups, keys = config.state_sizes("delta")
    heads_per_group, qkv, rates = heads // groups, f"{prefix}.qkv.weight", f"{prefix}.rates.weight"
    inputs = (qkv, qkv, qkv, f"{prefix}.gate.weight")
    unit_axes = {"convolution.weight": 1}
    return [
        TensorRow(
            inputs,
            f"{hf_prefix}.in_proj_qkvz.weight",
            groups=groups,
            sizes=(keys, keys, heads_per_group * values, heads_per_group * values),
        ),
        TensorRow(
            (rates, rates), f"{hf_prefix}.in_proj_ba.weight", groups=groups, sizes=(heads_per_group, heads_per_group)
        ),
        *(
            TensorRow(f"{prefix}.{name}", f"{hf_prefix}.{hf_part}", unit_axis=unit_axes.get(name))
            for name, hf_part in NAMES.items()
        ),
    ]


def rows(config: Config) -> list[TensorRow]:
    return decoder_rows(config, {"attention": ("self_attn", attention_rows), "delta": ("linear_attn", delta_rows)})


QWEN3_NEXT = llama_family(
    "Qwen3-Next",
    ("qwen3_next",),
    SUPPORTED,
    obstacles,
    SETTINGS,
    rows,
    ignored=IGNORED + r"|^mtp\.",  # a multi-token prediction head
    head=HEAD + r"|^mtp\.",
)
