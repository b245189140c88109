"""Mamba-2: a decoder of norms and mixers, without attention, feed-forward or positions."""

import math

from ...i18n import Message
from ...mixers.mamba2 import NAMES
from ...model.config import Config
from .family import Family, TensorRow, linear, need, supports
from .setting_table import (
    BOOL,
    ConfigReading,
    Rule,
    Setting,
    Unsupported,
    Value,
    activation_name,
    implied,
    required,
    write_only,
)

SUPPORTED = supports(
    *("qk_norm", "window", "mixer"),
    position=("none", "rotary", "alibi", "relative"),  # used by attention only
    feed_forward=("none",),
    bias=(False, True),
)
UNLIMITED = 1 << 20  # tokens: config.json has no length, and a state no limit


def obstacles(config: Config) -> list[Message]:
    """Requires Mamba-2 mixers only, with a whole expansion."""
    if set(config.mixers) != {"mamba2"}:
        return [need("mixer='mamba2'", repr(config.mixer))]
    return state_width_obstacles(config)


def state_width_obstacles(config: Config) -> list[Message]:
    """Return the obstacle of a layout that stores the total width of mixer heads as a multiple of the width."""
    heads, values, _groups, _keys = config.state_sizes("mamba2")
    fits = heads * values % config.width == 0
    return [] if fits else [need("n_state_head × state_head_width = 2 × width", f"{heads} × {values}", config.width)]


def check_steps(reading: ConfigReading) -> None:
    """Raise `Unsupported` if `time_step_limit` limits Mamba-2's step size Δ.

    transformers 5 writes infinity as {"__float__": "Infinity"}.
    """
    limits = reading.hf_config.get("time_step_limit") or (0.0, math.inf)
    limits = [float(limit["__float__"] if isinstance(limit, dict) else limit) for limit in limits]
    if limits != [0.0, math.inf]:
        raise Unsupported(
            "{name} is {value} in this config.json: qkv reads it with {wanted} only",
            name="time_step_limit",
            value=repr(limits),
            wanted="[0, Infinity]",
        )


def check_activation(reading: ConfigReading) -> None:
    """Raise an error unless the convolution's activation is SiLU."""
    activation_name(reading.hf_config.get("hidden_act", "silu"), {"swiglu": "silu"})


def read_heads(reading: ConfigReading) -> dict[str, Value]:
    """Return attention's heads, which equal the mixer's."""
    return dict(n_head=reading.settings["n_state_head"], head_width=reading.settings["state_head_width"])


def expansion(config: Config) -> int:
    """Return the total width of mixer heads as a multiple of the width."""
    heads, values, _groups, _keys = config.state_sizes("mamba2")
    return heads * values // config.width


SETTINGS = (
    write_only("architectures", ["Mamba2ForCausalLM"]),
    required("use_conv_bias", True, is_written=True),
    Rule(check_steps),
    Rule(check_activation, lambda config: dict(hidden_act="silu")),
    implied(mixer="mamba2"),
    Setting("vocab_size", "vocab"),
    Setting("hidden_size", "width"),
    Setting("num_hidden_layers", "n_layer"),
    Setting("num_heads", "n_state_head"),
    Setting("head_dim", "state_head_width"),
    Rule(read_heads, hf_names=dict(n_head="num_heads", head_width="head_dim")),
    write_only("expand", expansion),
    Setting("state_size", "state_width"),
    Setting("n_groups", "n_state_group"),
    Setting("conv_kernel", "taps"),
    Setting("use_bias", "bias", False, BOOL),
    Setting("layer_norm_epsilon", "norm_eps", 1e-5),
    Setting("tie_word_embeddings", "tied", False),
    # transformers has no such setting; qkv reads it back.
    Setting("max_position_embeddings", "context", UNLIMITED, falsy_is_missing=True),
)


def mixer_rows(config: Config, prefix: str, hf_prefix: str) -> list[TensorRow]:
    biased = config.bias is True
    names = {name: hf_part for name, hf_part in NAMES.items() if biased or name not in ("into.bias", "out.bias")}
    unit_axes = {"convolution.weight": 1}
    return [
        TensorRow(f"{prefix}.{name}", f"{hf_prefix}.{hf_part}", unit_axis=unit_axes.get(name))
        for name, hf_part in names.items()
    ]


def rows(config: Config) -> list[TensorRow]:
    table = [
        TensorRow("embedding.weight", "backbone.embeddings.weight"),
        TensorRow("decoder_norm.weight", "backbone.norm_f.weight"),
    ]
    for i in range(config.n_layer):
        prefix, hf_prefix = f"decoder.{i}", f"backbone.layers.{i}"
        table += linear(f"{prefix}.attention_norm", f"{hf_prefix}.norm", bias=False)
        table += mixer_rows(config, f"{prefix}.attention", f"{hf_prefix}.mixer")
    return table + [TensorRow("head.weight", "lm_head.weight")] * (not config.embedding.tied)


MAMBA2 = Family(
    "Mamba-2",
    ("mamba2",),
    SUPPORTED,
    obstacles,
    SETTINGS,
    rows,
    ignored=r"^lm_head\.weight$",
    prefix="backbone.",
    head=r"^lm_head\.",
    repeats={"lm_head.weight": "backbone.embeddings.weight"},
)
