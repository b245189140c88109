"""Rotary angles in a config.json: base, scaling, and the fraction of a head that is rotated."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ...i18n import all_of
from ...model.config import Config
from .setting_table import (
    ConfigReading,
    Entry,
    HfConfig,
    Pairs,
    Unsupported,
    UnsupportedValue,
    Value,
    require,
    value_of,
)

# Kind of scaling -> our name of each number -> theirs.
SCALING = {
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "low": "low_freq_factor",
        "high": "high_freq_factor",
        "original": "original_max_position_embeddings",
    },
    "dynamic": {"factor": "factor"},  # the original length is the context
    "longrope": {
        "short": "short_factor",
        "long": "long_factor",
        "original": "original_max_position_embeddings",
        "stretch": "attention_factor",
    },
    "yarn": {
        "factor": "factor",
        "original": "original_max_position_embeddings",
        "fast": "beta_fast",
        "slow": "beta_slow",
        "stretch": "attention_factor",
    },
}
NEUTRAL = {"partial_rotary_factor": 1.0, "truncate": True}  # supported values of other settings


@dataclass(frozen=True)
class RotaryEntry(Entry):
    """The rotary settings of a layout."""

    defaults: HfConfig = field(default_factory=dict)  # of keys beside the table
    share: float | None = None  # default fraction of a head; None: heads are rotated whole
    share_name: str = "partial_rotary_factor"  # key of the fraction beside the table; "": none
    base_name: str = "rope_theta"
    normalise: Callable[[HfConfig], HfConfig] = lambda hf_config: hf_config  # converts old names

    def read(self, reading: ConfigReading) -> dict[str, Value]:
        hf_config = self.defaults | self.normalise(reading.hf_config)
        share: Value = 1.0 if self.share is None else self.share
        hf_config.setdefault("rope_theta", hf_config.get(self.base_name, 10000.0))
        if self.share is None:
            require(hf_config, dict(partial_rotary_factor=1.0))
        else:
            share = rotary_table(hf_config).get("partial_rotary_factor", hf_config.get(self.share_name, share))
        return read_rotary(hf_config, share) | dict(rotary_fraction=share)

    def write(self, config: Config) -> HfConfig:
        return write_rotary(config, with_share=self.share is not None)

    def names(self) -> Pairs:
        pairs = dict(rope_theta="rotary_base", partial_rotary_factor="rotary_fraction")
        pairs |= {self.base_name: "rotary_base", self.share_name: "rotary_fraction"}
        return [(name, hf_name) for hf_name, name in pairs.items()]


def write_rotary(config: Config, with_share: bool = False) -> HfConfig:
    """Return the angles as transformers 5 (rope_parameters) and 4 (rope_theta, rope_scaling) have them."""
    base, scaling = config.rotary.base, config.rotary.scaling
    if scaling is not None and scaling["kind"] == "ntk":  # equivalent to another base, and written as one
        width = int(value_of(config, "head_width") * config.rotary.fraction)
        base, scaling = base * scaling["factor"] ** (width / (width - 2)), None
    share = {"partial_rotary_factor": config.rotary.fraction} if with_share else {}
    table: HfConfig | None = None
    if scaling is not None:
        names = SCALING[scaling["kind"]]
        table = {"rope_type": scaling["kind"]} | {names[name]: scaling[name] for name in names if name in scaling}
    return dict(
        rope_theta=base,
        rope_scaling=None if table is None else table | share,  # transformers prefers this table
        rope_parameters={"rope_theta": base, **(table or {"rope_type": "default"}), **share},
        **share,
    )


def rotary_table(hf_config: HfConfig) -> HfConfig:
    """Return the table of angles. Like transformers, prefer rope_scaling if there are two."""
    rope = hf_config.get("rope_scaling") or hf_config.get("rope_parameters") or {}
    return {name: value for name, value in rope.items() if value is not None}


def read_rotary(hf_config: HfConfig, share: float = 1.0) -> dict[str, Value]:
    """Return base and scaling. Numbers missing in the table are read from the keys beside it; `share` of a head is
    rotated."""
    rope = rotary_table(hf_config)
    base = float(rope.pop("rope_theta", hf_config.get("rope_theta", 10000.0)))
    old_name = rope.pop("type", "default")
    kind = rope.pop("rope_type", old_name)
    require(rope, NEUTRAL | {"partial_rotary_factor": share})
    rope = {name: value for name, value in rope.items() if name not in NEUTRAL}
    if kind == "default":
        return dict(rotary_base=base, rotary_scaling=None)
    if kind not in SCALING:
        problem = UnsupportedValue(
            "rotary scaling {kind!r} is not supported: qkv reads {known}", kind=kind, known=all_of(SCALING)
        )
        problem.repair = lambda hf_config: hf_config | {"rope_scaling": None, "rope_parameters": None}
        raise problem
    context = hf_config["max_position_embeddings"]
    if "original" in SCALING[kind]:
        name = "original_max_position_embeddings"
        rope[name] = hf_config.get(name) or rope.get(name) or context
    factor = rope.pop("factor", None) if kind == "longrope" else None
    scaling = {name: rope.pop(hf_name) for name, hf_name in SCALING[kind].items() if hf_name in rope}
    if kind == "dynamic":
        scaling["original"] = context
    if kind == "longrope":
        scaling.setdefault("stretch", long_stretch(factor or context / scaling["original"], scaling["original"]))
    if rope:
        raise Unsupported(
            "rotary scaling {kind!r} with {names} is more than qkv knows", kind=kind, names=all_of(sorted(rope))
        )
    return dict(rotary_base=base, rotary_scaling={"kind": kind, **scaling})


def long_stretch(factor: float, original: int) -> float:
    """Return LongRoPE's default factor of cos and sin."""
    return 1.0 if factor <= 1.0 else math.sqrt(1 + math.log(factor) / math.log(original))
