"""Mamba-2: a decoder whose blocks are a norm and a mixer, without attention, feed-forward or positions."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...i18n import Message
from ...mixers.mamba2 import NAMES
from ...model.config import Config
from .family import PLAIN, Family, Foreign, Row, insist, linear, need, word_of

HOLDS: dict[str, tuple[Any, ...]] = dict(
    kind=("decoder",),
    position=("none", "rotary", "alibi", "relative"),  # those that only attention would ask for
    norm=("rms",),
    norm_place=("pre",),
    feed_forward=("none",),
    bias=(False, True),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    head=("linear",),
    **PLAIN,
)
UNSAID = 1 << 20  # tokens: a config.json says nothing of lengths, and a state has no limit


def obstacles(config: Config) -> list[Message]:
    """Mixers of one kind, whose heads fill a whole number of widths."""
    if set(config.mixers) != {"mamba2"}:
        return [need("mixer='mamba2'", repr(config.mixer))]
    return whole_widths(config)


def whole_widths(config: Config) -> list[Message]:
    """The obstacle of a layout that says how often the width goes into what the heads of a mixer have together."""
    heads, values, _groups, _keys = config.state_sizes("mamba2")
    fits = heads * values % config.width == 0
    return [] if fits else [need("n_state_head × state_head_width = 2 × width", f"{heads} × {values}", config.width)]


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    heads, values, groups, keys = config.state_sizes("mamba2")
    return dict(
        model_type="mamba2",
        architectures=["Mamba2ForCausalLM"],
        vocab_size=config.vocab,
        hidden_size=config.width,
        num_hidden_layers=config.n_layer,
        num_heads=heads,
        head_dim=values,
        expand=heads * values // config.width,
        state_size=keys,
        n_groups=groups,
        conv_kernel=config.taps,
        hidden_act="silu",
        use_bias=config.bias is True,
        use_conv_bias=True,
        layer_norm_epsilon=config.norm_eps,
        tie_word_embeddings=config.tied,
        max_position_embeddings=config.context,  # nothing to theirs, but ours knows its context again
    )


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way."""
    insist(theirs, dict(use_conv_bias=True))
    insist_on_steps(theirs)
    word_of(theirs.get("hidden_act", "silu"), {"swiglu": "silu"})  # of the convolution
    width, heads, values = theirs["hidden_size"], theirs["num_heads"], theirs["head_dim"]
    return fewest(
        Config(
            kind="decoder",
            vocab=theirs["vocab_size"],
            width=width,
            n_layer=theirs["num_hidden_layers"],
            n_head=heads,
            head_width=None if heads * values == width else values,
            context=theirs.get("max_position_embeddings") or UNSAID,
            position="none",
            norm_eps=theirs.get("layer_norm_epsilon", 1e-5),
            feed_forward="none",
            bias=theirs.get("use_bias", False),
            mixer="mamba2",
            state_width=theirs["state_size"],
            n_state_head=heads,
            n_state_group=theirs["n_groups"],
            taps=theirs["conv_kernel"],
            tied=theirs.get("tie_word_embeddings", False),
        ),
        "mamba2",
    )


def insist_on_steps(theirs: dict[str, Any]) -> None:
    """Steps are softplus(…), kept within nothing; transformers 5 writes infinity as {"__float__": "Infinity"}."""
    told = theirs.get("time_step_limit") or (0.0, math.inf)
    limits = [float(end["__float__"] if isinstance(end, dict) else end) for end in told]
    if limits != [0.0, math.inf]:
        raise Foreign(
            "{name} is {value} in this config.json: qkv reads it with {wanted} only",
            name="time_step_limit",
            value=repr(limits),
            wanted="[0, Infinity]",
        )


def fewest(config: Config, word: str) -> Config:
    """The same without sizes of the state that needn't be said."""
    for name in ("n_state_head", "state_head_width", "n_state_group", "state_width"):
        shorter = config.replace(**{name: None})
        if shorter.state_sizes(word) == config.state_sizes(word):
            config = shorter
    return config


def remembers(config: Config, ours: str, theirs: str) -> list[Row]:
    """The rows of one mixer."""
    biased = config.bias is True
    named = {name: word for name, word in NAMES.items() if biased or name not in ("into.bias", "out.bias")}
    lifted = {"convolution.weight": 1}
    return [Row(f"{ours}.{name}", f"{theirs}.{word}", lifted=lifted.get(name)) for name, word in named.items()]


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    table = [
        Row("embedding.weight", "backbone.embeddings.weight"),
        Row("decoder_norm.weight", "backbone.norm_f.weight"),
    ]
    for i in range(config.n_layer):
        ours, theirs = f"decoder.{i}", f"backbone.layers.{i}"
        table += linear(f"{ours}.attention_norm", f"{theirs}.norm", bias=False)
        table += remembers(config, f"{ours}.attention", f"{theirs}.mixer")
    return table + [Row("head.weight", "lm_head.weight")] * (not config.tied)


MAMBA2 = Family(
    "Mamba-2",
    ("mamba2",),
    HOLDS,
    obstacles,
    write,
    read,
    rows,
    ignored=r"^lm_head\.weight$",
    prefix="backbone.",
    head=r"^lm_head\.",
    repeats={"lm_head.weight": "backbone.embeddings.weight"},
)
