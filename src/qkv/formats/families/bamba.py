"""Bamba: a LLaMA most of whose layers have a Mamba-2 mixer in attention's place, and whose attention turns half of each head."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...i18n import Message
from ...model.config import Config
from ...model.layer_pattern import layer_pattern
from .family import PLAIN, Family, Foreign, Row, insist, need, word_of
from .llama import (
    HEAD,
    IGNORED,
    REPEATS,
    looks,
    read_sizes,
    rotary_table,
    stack,
    write_rotary,
    write_sizes,
)
from .mamba2 import fewest, insist_on_steps, remembers, whole_widths

ACTIVATIONS = {"swiglu": "silu"}  # which is the convolution's too
HOLDS: dict[str, tuple[Any, ...]] = dict(
    kind=("decoder",),
    position=("rotary",),
    norm=("rms",),
    norm_place=("pre",),
    feed_forward=tuple(ACTIVATIONS),
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


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    heads, values, groups, keys = config.state_sizes("mamba2")
    biased = config.bias is True
    mamba = dict(
        attn_layer_indices=[i for i, word in enumerate(config.mixers) if word == "attention"],
        mamba_n_heads=heads,
        mamba_d_head=values,
        mamba_expand=heads * values // config.width,
        mamba_d_state=keys,
        mamba_n_groups=groups,
        mamba_d_conv=config.taps,
        mamba_conv_bias=True,
    )
    biases = dict(attention_bias=biased, mlp_bias=biased, mamba_proj_bias=biased)
    theirs = dict(model_type="bamba", architectures=["BambaForCausalLM"]) | write_sizes(config) | mamba | biases
    return theirs | write_rotary(config, said=True)


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way."""
    bias = theirs.get("attention_bias", False)
    insist(theirs, dict(mlp_bias=bias, mamba_proj_bias=bias, mamba_conv_bias=True))
    insist_on_steps(theirs)
    layers = read_layers(theirs)
    fraction = rotary_table(theirs).get("partial_rotary_factor", 0.5)  # transformers hears it nowhere else
    config = Config(
        feed_forward=word_of(theirs.get("hidden_act", "silu"), ACTIVATIONS),
        bias=bias,
        mixer=layer_pattern(layers),
        **(read_state(theirs) if "mamba2" in layers else {}),
        **read_sizes({"rms_norm_eps": 1e-5, **theirs}, fraction),
    )
    return fewest(config, "mamba2")


def read_layers(theirs: dict[str, Any]) -> tuple[str, ...]:
    """What stands in each layer. As in transformers, numbers beyond the last layer have no effect."""
    count, attend = theirs["num_hidden_layers"], theirs.get("attn_layer_indices")
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
    return layers


def read_state(theirs: dict[str, Any]) -> dict[str, Any]:
    """The sizes of the Mamba-2 layers."""
    heads, values = theirs["mamba_n_heads"], theirs.get("mamba_d_head", "auto")
    return dict(
        state_width=theirs["mamba_d_state"],
        n_state_head=heads,
        state_head_width=theirs["mamba_expand"] * theirs["hidden_size"] // heads if values == "auto" else values,
        n_state_group=theirs["mamba_n_groups"],
        taps=theirs["mamba_d_conv"],
    )


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    mixers = {"attention": ("self_attn", looks), "mamba2": ("mamba", remembers)}
    return stack(config, mixers, think="feed_forward", think_norm="pre_ff_layernorm", last="final_layernorm")


BAMBA = Family(
    "Bamba",
    ("bamba",),
    HOLDS,
    obstacles,
    write,
    read,
    rows,
    ignored=IGNORED,
    prefix="model.",
    head=HEAD,
    repeats=REPEATS,
)
