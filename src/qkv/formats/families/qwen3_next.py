"""Qwen3-Next: layers of the gated delta rule with every fourth an attention, whose heads are gated, normed and turned in part.

Its norms keep what is added to 1. Its large models have a mixture of experts for a feed-forward, which is not read here.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...i18n import Message, _, all_of
from ...mixers.delta import NAMES
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
from .mamba2 import fewest

ACTIVATIONS = {"swiglu": "silu"}  # which is the convolution's too
WORDS = {"delta": "linear_attention", "attention": "full_attention"}  # ours -> theirs
ATTENTION: dict[str, Any] = dict(position="rotary", qk_norm="rms-centred", attention_gate=True)
HOLDS: dict[str, tuple[Any, ...]] = dict(
    kind=("decoder",),
    norm=("rms-centred",),
    norm_place=("pre",),
    feed_forward=tuple(ACTIVATIONS),
    bias=(False,),
    window=(None,),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    head=("linear",),
    **{name: values for name, values in PLAIN.items() if name != "rotary_fraction"}
    | {name: (value,) for name, value in ATTENTION.items()},
)


def obstacles(config: Config) -> list[Message]:
    """Mixers of both kinds: without attention transformers' own can't run."""
    fits = set(config.mixers) == {"delta", "attention"}
    return [] if fits else [need("mixer='delta×… attention'", repr(config.mixer))]


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    heads, values, groups, keys = config.state_sizes("delta")
    delta = dict(
        layer_types=[WORDS[word] for word in config.mixers],
        linear_num_value_heads=heads,
        linear_value_head_dim=values,
        linear_num_key_heads=groups,
        linear_key_head_dim=keys,
        linear_conv_kernel_dim=config.taps,
    )
    dense = dict(attention_bias=False, num_experts=0, num_experts_per_tok=0, mlp_only_layers=[])
    theirs = dict(model_type="qwen3_next", architectures=["Qwen3NextForCausalLM"]) | write_sizes(config) | delta | dense
    return theirs | write_rotary(config, said=True)


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way."""
    insist(theirs, dict(attention_bias=False, attn_output_gate=True))
    refuse_experts(theirs)
    fraction = rotary_table(theirs).get("partial_rotary_factor", theirs.get("partial_rotary_factor", 0.25))
    layers = read_layers(theirs)
    config = Config(
        norm="rms-centred",
        feed_forward=word_of(theirs.get("hidden_act", "silu"), ACTIVATIONS),
        mixer=layer_pattern(layers),
        **(read_state(theirs) if "delta" in layers else {}),
        **ATTENTION,
        **read_sizes({"head_dim": 256, **theirs}, fraction),
    )
    return fewest(config, "delta")


def read_state(theirs: dict[str, Any]) -> dict[str, Any]:
    """The sizes of the layers of the delta rule."""
    return dict(
        state_width=theirs["linear_key_head_dim"],
        n_state_head=theirs["linear_num_value_heads"],
        state_head_width=theirs["linear_value_head_dim"],
        n_state_group=theirs["linear_num_key_heads"],
        taps=theirs["linear_conv_kernel_dim"],
    )


def refuse_experts(theirs: dict[str, Any]) -> None:
    """Refuse a mixture of experts, by the layers that have one; the rule is transformers' own."""
    count, every = theirs.get("num_experts", 512), theirs.get("decoder_sparse_step", 1)
    dense = theirs.get("mlp_only_layers") or ()
    mixed = [i for i in range(theirs["num_hidden_layers"]) if count and i not in dense and (i + 1) % every == 0]
    if mixed:
        sentence = _(
            "{some} of {all} layers of this Qwen3-Next have a mixture of {count} experts for a feed-forward: qkv reads "
            "those with one feed-forward per layer (num_experts=0)"
        )
        if "num_experts" not in theirs:
            sentence = _(
                "this config.json says nothing of num_experts, which is {count} by default in transformers: {some} of "
                "{all} layers of this Qwen3-Next have a mixture of experts for a feed-forward, and qkv reads those with "
                "one feed-forward per layer (num_experts=0)"
            )
        raise Foreign(sentence, some=len(mixed), all=theirs["num_hidden_layers"], count=count)


def read_layers(theirs: dict[str, Any]) -> tuple[str, ...]:
    """What stands in each layer; where a file doesn't say, every fourth attends."""
    layers, every = theirs["num_hidden_layers"], theirs.get("full_attention_interval") or 4
    usual = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(layers)]
    told = theirs.get("layer_types") or usual
    known = {word: ours for ours, word in WORDS.items()}
    if strange := next((word for word in told if word not in known), None):
        raise Foreign(
            "layer_types names {word!r} in this config.json, which qkv doesn't know: it reads {known}",
            word=strange,
            known=all_of(known),
        )
    if len(told) != layers:
        raise Foreign(
            "layer_types has length {count} in this config.json, but num_hidden_layers is {layers}: give one word for "
            "each layer",
            count=len(told),
            layers=layers,
        )
    if "full_attention" not in told:
        raise Foreign("no layer of this {family} attends, and qkv reads those in which some do", family="Qwen3-Next")
    return tuple(known[word] for word in told)


def overwrites(config: Config, ours: str, theirs: str) -> list[Row]:
    """The rows of one layer of the delta rule: q, k, v and gate are woven key head by key head, and so are the rates."""
    heads, values, groups, keys = config.state_sizes("delta")
    each, qkv, rates = heads // groups, f"{ours}.qkv.weight", f"{ours}.rates.weight"
    inputs = (qkv, qkv, qkv, f"{ours}.gate.weight")
    lifted = {"convolution.weight": 1}
    return [
        Row(inputs, f"{theirs}.in_proj_qkvz.weight", groups=groups, sizes=(keys, keys, each * values, each * values)),
        Row((rates, rates), f"{theirs}.in_proj_ba.weight", groups=groups, sizes=(each, each)),
        *(Row(f"{ours}.{name}", f"{theirs}.{word}", lifted=lifted.get(name)) for name, word in NAMES.items()),
    ]


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    return stack(config, {"attention": ("self_attn", looks), "delta": ("linear_attn", overwrites)})


QWEN3_NEXT = Family(
    "Qwen3-Next",
    ("qwen3_next",),
    HOLDS,
    obstacles,
    write,
    read,
    rows,
    ignored=IGNORED + r"|^mtp\.",  # a further head that guesses several tokens at once
    prefix="model.",
    head=HEAD + r"|^mtp\.",
    repeats=REPEATS,
)
