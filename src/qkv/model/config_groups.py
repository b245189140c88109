"""The groups of settings that a `Config` is made of, and the name of each setting in files, messages and `--set`.

>>> from qkv.model.config import Config
>>> config = Config(rotary=RotarySettings(base=1e6))
>>> config == Config(rotary_base=1e6) == Config().set(["rotary.base=1e6"]), config.to_dict()["rotary_base"]
(True, 1000000.0)
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..i18n import Problem, _, all_of, nearest
from .mixture import Experts
from .words import Head, Sides

Values = dict[str, Any]  # settings by name, as JSON has them


@dataclass(frozen=True)
class RelativeSettings:
    """Distances that heads learn a number for, for position="relative"."""

    buckets: int = 32  # how many numbers a head learns,
    distance: int = 128  # and the distance from which on all share the last


@dataclass(frozen=True)
class StateSettings:
    """Layers that keep a state: retention, mamba2, delta. `Config.state_sizes` says what None stands for."""

    width: int | None = None  # of the keys of a state; Mamba-2's is 64, else head_width
    n_head: int | None = None  # of such a layer: the model's; Mamba-2 has as many as fill 2 × width
    head_width: int | None = None  # of their values: the model's, and twice the keys' width for retention
    n_group: int | None = None  # heads of a group share q and k: 1 group in mamba2, one per head in delta
    taps: int = 4  # of the causal convolution before mamba2 and delta


@dataclass(frozen=True)
class LatentSettings:
    """Latent attention (MLA), for mixer="latent"."""

    rank: int | None = None  # of the latent
    rope_width: int | None = None  # of its rotary key
    value_width: int | None = None  # of its values: head_width
    q_rank: int | None = None  # of a latent that its queries are made from, where they are


@dataclass(frozen=True)
class RotarySettings:
    """The angles by which queries and keys are turned, for position="rotary"."""

    base: float = 10000.0
    scaling: Values | None = None
    fraction: float = 1.0  # of each head's numbers is turned, the first ones
    window_base: float | None = None  # the base of layers with a window, where it is another; never scaled


@dataclass(frozen=True)
class EmbeddingSettings:
    """What comes before the first block."""

    tied: bool = True  # the head reads the embedding's matrix
    scale: float = 1.0  # word vectors are multiplied by it before positions are added
    width: int | None = None  # of word vectors that are narrower than the model, and made as wide by a matrix
    norm: bool = False  # a norm over the sum of word, position and type vectors, as BERT has it
    sides: Sides = "shared"  # are learned positions and embedding norm one for both sides of an encoder-decoder?
    token_types: int = 0  # BERT's segments: a vector for each, added to the words of an encoder


@dataclass(frozen=True)
class OutputSettings:
    """What comes after the last block."""

    head: Head = (
        "linear"  # the vocabulary matrix; mlm: a dense layer before it and a bias, as BERT has it; none: states
    )
    labels: tuple[str, ...] = ()  # of head="classes", which tells whole texts apart: a name for each class
    bias: bool = False  # a number per word added to its logits, for head="linear"
    scale: float = 1.0  # states are multiplied by it before the vocabulary matrix, for head="linear"
    softcap: float | None = None  # and logits l become c·tanh(l / c)
    pooler: bool = False  # an encoder's summary of a text, read from its first token: `Transformer.pool`

    def __post_init__(self) -> None:
        labels: object = self.labels
        if isinstance(labels, list):  # JSON has no tuples
            object.__setattr__(self, "labels", tuple(labels))


GROUPS: dict[str, type] = {
    "relative": RelativeSettings,
    "experts": Experts,
    "state": StateSettings,
    "latent": LatentSettings,
    "rotary": RotarySettings,
    "embedding": EmbeddingSettings,
    "output": OutputSettings,
}
# Group -> its fields -> their names in files, messages and `--set`. The settings of experts have none: there, they stand
# in an object of their own.
NAMES = {
    "relative": dict(buckets="relative_buckets", distance="relative_distance"),
    "state": dict(
        width="state_width", n_head="n_state_head", head_width="state_head_width", n_group="n_state_group", taps="taps"
    ),
    "latent": dict(rank="rank", rope_width="rope_width", value_width="value_width", q_rank="q_rank"),
    "rotary": dict(base="rotary_base", scaling="rotary_scaling", fraction="rotary_fraction", window_base="window_base"),
    "embedding": dict(
        tied="tied",
        scale="embedding_scale",
        width="embedding_width",
        norm="embedding_norm",
        sides="sides",
        token_types="token_types",
    ),
    "output": dict(
        head="head", labels="labels", bias="head_bias", scale="output_scale", softcap="output_softcap", pooler="pooler"
    ),
}
GROUP_FIELDS = {name: (group, inner) for group, names in NAMES.items() for inner, name in names.items()}


def group_settings(settings: Mapping[str, Any], own_names: Sequence[str]) -> Values:
    """Return settings by the names of Config's own fields: a setting of a group changes the group that is given beside it,
    or the group's defaults.

    >>> in_groups({"width": 64, "tied": False, "embedding.scale": 2.0}, ["width", "embedding"])
    {'width': 64, 'embedding': {'tied': False, 'scale': 2.0}}
    """
    own: Values = {}
    changes: dict[str, Values] = {}  # of groups
    for name, value in settings.items():
        group, _dot, inner = name.partition(".")
        group, inner = GROUP_FIELDS.get(name, (group, inner))
        if inner and group in GROUPS:
            changes.setdefault(group, {})[inner] = value
        elif name in own_names:
            own[name] = value
        else:
            valid_names = [
                each for own_name in own_names for each in NAMES.get(own_name, {own_name: own_name}).values()
            ]
            raise _unknown_setting(name, valid_names)
    for group, values in changes.items():
        before = own.get(group) or {}
        own[group] = (before if isinstance(before, dict) else vars(read_group(group, before))) | values
    return own


def read_group(name: str, values: object) -> object:
    """Return a group from names and values, as a file or a command line gives them; a group itself stays as it is."""
    kind = GROUPS[name]
    if isinstance(values, kind) or (values is None and name == "experts"):
        return values
    if name == "experts" and not (isinstance(values, dict) and "count" in values):
        raise Problem(
            'experts are {value}: give none, or an object such as {{"count": 8, "per_token": 2}}', value=repr(values)
        )
    if not isinstance(values, dict):
        raise Problem(
            "{name} is {value}: give an object such as {example}",
            name=name,
            value=repr(values),
            example=json.dumps(asdict(kind())),
        )
    valid_names = [field.name for field in fields(kind)]
    for inner in values:
        if inner not in valid_names:
            raise _unknown_setting(f"{name}.{inner}", [f"{name}.{each}" for each in valid_names])
    return kind(**values)


def _unknown_setting(name: str, valid_names: list[str]) -> Problem:
    near = nearest(name, valid_names)
    key = (
        _("there is no setting {name!r}; did you mean {near!r}? All of them: {known}")
        if near
        else _("there is no setting {name!r}. All of them: {known}")
    )
    return Problem(key, name=name, near=near, known=all_of(valid_names))
