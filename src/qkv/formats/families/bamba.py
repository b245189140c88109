"""Bamba: a LLaMA most of whose layers have a Mamba-2 mixer in attention's place, and whose attention turns half of each head."""

from ...i18n import Message
from ...model.config import Config
from ...model.layer_pattern import layer_pattern
from .family import PLAIN, Family, TensorRow, need
from .llama import HEAD, IGNORED, REPEATS, SILU_GATE, SIZES, looks, stack
from .mamba2 import check_steps, expansion, remembers, whole_widths
from .rotary_settings import RotaryEntry
from .setting_table import (
    TRUTH,
    ConfigReading,
    Foreign,
    HfConfig,
    Holds,
    Rule,
    Setting,
    Table,
    Value,
    but,
    required,
    when,
    written,
)

HOLDS: Holds = dict(
    kind=("decoder",),
    position=("rotary",),
    norm=("rms",),
    norm_place=("pre",),
    feed_forward=("swiglu",),  # whose activation is the convolution's too
    bias=(False, True),
    qk_norm=(None,),
    window=(None,),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    head=("linear",),
) | {name: values for name, values in PLAIN.items() if name != "rotary_fraction"}


def obstacles(config: Config) -> list[Message]:
    """Mixers of both kinds: without attention transformers' own can't run."""
    words = set(config.mixers)
    either = [] if words == {"mamba2", "attention"} else [need("mixer='mamba2×… attention'", repr(config.mixer))]
    return either + whole_widths(config)


def read_layers(reading: ConfigReading) -> dict[str, Value]:
    """Return what stands in each layer. As in transformers, numbers beyond the last layer have no effect."""
    count, attend = reading.ours["n_layer"], reading.theirs.get("attn_layer_indices")
    if not attend:
        raise Foreign("no layer of this {family} attends, and qkv reads those in which some do", family="Bamba")
    layers = tuple("attention" if i in attend else "mamba2" for i in range(count))
    if layers and "attention" not in layers:
        raise Foreign(
            "attn_layer_indices is {value} in this config.json, but its layers are numbered from 0 to {last}: no layer of "
            "this {family} attends, and qkv reads those in which some do",
            value=repr(attend),
            last=count - 1,
            family="Bamba",
        )
    return dict(mixer=layer_pattern(layers))


def write_layers(config: Config) -> HfConfig:
    """Return the numbers of those that attend."""
    return dict(attn_layer_indices=[i for i, word in enumerate(config.mixers) if word == "attention"])


def read_values(reading: ConfigReading) -> dict[str, Value]:
    """Return the width of a mixer's heads, which may follow from how many widths they have together."""
    theirs, values = reading.theirs, reading.theirs.get("mamba_d_head", "auto")
    if values == "auto":
        values = theirs["mamba_expand"] * theirs["hidden_size"] // theirs["mamba_n_heads"]
    return dict(state_head_width=values)


def write_values(config: Config) -> HfConfig:
    """Return both."""
    return dict(mamba_d_head=config.state_sizes("mamba2").values, mamba_expand=expansion(config))


def bias(reading: ConfigReading) -> Value:
    """Return whether attention has biases: the other parts must have them too, or none."""
    return reading.theirs.get("attention_bias", False)


SETTINGS: Table = (
    written("architectures", ["BambaForCausalLM"]),
    required("mlp_bias", bias),
    required("mamba_proj_bias", bias),
    required("mamba_conv_bias", True, written=True),
    Rule(check_steps),
    *but(SIZES, rms_norm_eps=1e-5),
    SILU_GATE,
    Setting("attention_bias", "bias", False, TRUTH, also=("mlp_bias", "mamba_proj_bias")),
    Rule(read_layers, write_layers, dict(mixer="attn_layer_indices")),
    *when(
        lambda reading: "mamba2" in reading.ours["mixer"],
        Setting("mamba_d_state", "state_width"),
        Setting("mamba_n_heads", "n_state_head"),
        Rule(read_values, write_values, dict(state_head_width="mamba_d_head")),
        Setting("mamba_n_groups", "n_state_group"),
        Setting("mamba_d_conv", "taps"),
    ),
    RotaryEntry(share=0.5, share_name=""),  # transformers hears it nowhere but in the table
)


def rows(config: Config) -> list[TensorRow]:
    """Where each tensor lies."""
    mixers = {"attention": ("self_attn", looks), "mamba2": ("mamba", remembers)}
    return stack(config, mixers, think="feed_forward", think_norm="pre_ff_layernorm", last="final_layernorm")


BAMBA = Family(
    "Bamba",
    ("bamba",),
    HOLDS,
    obstacles,
    SETTINGS,
    rows,
    ignored=IGNORED,
    prefix="model.",
    head=HEAD,
    repeats=REPEATS,
)
