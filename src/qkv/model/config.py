"""The configuration of a Transformer: a frozen dataclass of plain values, with groups of settings and choices as words.

>>> Config(width=64, n_head=4, position="rotery")
Traceback (most recent call last):
qkv.i18n.Problem: position 'rotery' is not one of none, sinusoidal, learned, rotary, alibi, relative; did you mean 'rotary'?
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..i18n import Problem, _, all_of, nearest
from .config_checks import MIXERS, MOST_LAYERS, check_config, check_kinds, choose, layer_words
from .mixture import LAYERS, Experts
from .words import CHOICES, Activation, Bias, Head, Init, Kind, Norm, NormPlace, Position, Sides, Sinusoid

Values = dict[str, Any]  # settings by name, as JSON has them


@dataclass(frozen=True)
class RelativeSettings:
    """Buckets of distances with a learned bias per head, for position="relative"."""

    buckets: int = 32  # biases per head
    distance: int = 128  # longer distances share the last bucket


@dataclass(frozen=True)
class StateSettings:
    """Layers with a state: retention, mamba2, delta. `Config.state_sizes` has the defaults of None."""

    width: int | None = None  # of the keys of a state; Mamba-2's is 64, else head_width
    n_head: int | None = None  # the model's; for Mamba-2 2 × width / head_width
    head_width: int | None = None  # of the values: the model's; twice the keys' width for retention
    n_group: int | None = None  # heads of a group share q and k: 1 group in mamba2, one per head in delta
    taps: int = 4  # of the causal convolution before mamba2 and delta


@dataclass(frozen=True)
class LatentSettings:
    """Latent attention (MLA), for mixer="latent"."""

    rank: int | None = None  # of the latent
    rope_width: int | None = None  # of the rotary key
    value_width: int | None = None  # of the values: head_width
    q_rank: int | None = None  # of the latent for queries, if they have one


@dataclass(frozen=True)
class RotarySettings:
    """Rotary position embeddings, for position="rotary"."""

    base: float = 10000.0
    scaling: Values | None = None
    fraction: float = 1.0  # share of each head that is rotated, from its start
    window_base: float | None = None  # base of layers with a window, if different; never scaled


@dataclass(frozen=True)
class EmbeddingSettings:
    """The embeddings before the first block."""

    tied: bool = True  # the head shares the embedding's matrix
    scale: float = 1.0  # factor of word vectors, before positions are added
    width: int | None = None  # width of word vectors if narrower than the model; a matrix widens them
    norm: bool = False  # a norm over the sum of word, position and type vectors, as in BERT
    sides: Sides = "shared"  # own: learned positions and embedding norm per side of an encoder-decoder
    token_types: int = 0  # BERT's segments: their vectors are added to the words of an encoder


@dataclass(frozen=True)
class OutputSettings:
    """The head after the last block."""

    head: Head = "linear"  # the vocabulary matrix; mlm: with a dense layer and a bias, as in BERT; none: states
    labels: tuple[str, ...] = ()  # names of the classes, for head="classes", which classifies texts
    bias: bool = False  # a bias per word, for head="linear"
    scale: float = 1.0  # factor of states before the vocabulary matrix, for head="linear"
    softcap: float | None = None  # logits l become c·tanh(l / c)
    pooler: bool = False  # an encoder's summary of a text from its first token: `Transformer.pool`

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
# Group → field → name in files, messages and `--set`. Experts have none: in files they are an object.
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
    """Return settings by Config's own fields. A setting of a group changes the group in `settings`, or its defaults.

    >>> group_settings({"width": 64, "tied": False, "embedding.scale": 2.0}, ["width", "embedding"])
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
            raise unknown_setting(name, valid_names)
    for group, values in changes.items():
        before = own.get(group) or {}
        own[group] = (before if isinstance(before, dict) else vars(read_group(group, before))) | values
    return own


def read_group(name: str, values: object) -> object:
    """Return a group from names and values. A group itself is returned unchanged."""
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
            raise unknown_setting(f"{name}.{inner}", [f"{name}.{each}" for each in valid_names])
    return kind(**values)


def unknown_setting(name: str, valid_names: list[str]) -> Problem:
    """Return the error for a name that is not a setting, with the nearest name."""
    near = nearest(name, valid_names)
    key = _("there is no setting {name!r}. All: {known}")
    if near:
        key = _("there is no setting {name!r}; did you mean {near!r}? All: {known}")
    return Problem(key, name=name, near=near, known=all_of(valid_names))


OLD_NAMES = {"thinkers": "feed_forwards", "says_words": "predicts_words"}  # until version 0.3


class StateSizes(NamedTuple):
    """Sizes of a layer with a state: heads and width of values, groups that share q and k, and width of keys."""

    heads: int
    values: int
    groups: int
    keys: int


@dataclass(frozen=True)
class Config:
    """The shape of a Transformer.

    Settings of one part are in a group, such as `config.rotary.base`. In files, messages and `--set` each also has a flat
    name, `rotary_base`, which works here too.

    >>> Config(width=64, n_head=4, n_kv_head=2).n_kv_head
    2
    >>> Config(width=64, n_head=5)
    Traceback (most recent call last):
    qkv.i18n.Problem: width 64 doesn't divide into 5 heads: choose a divisor, or give head_width
    """

    kind: Kind = "decoder"  # decoder (GPT), encoder (BERT), encoder-decoder (a translator)
    vocab: int = 256
    source_vocab: int | None = None  # of an encoder with its own word vectors; None: both sides share them
    width: int = 128
    n_layer: int = 4  # of each side, for an encoder-decoder
    n_decoder_layer: int | None = None  # of the decoder, if different from the encoder
    n_head: int = 4
    n_kv_head: int | None = None  # fewer than n_head is GQA, 1 is MQA
    head_width: int | None = None  # width / n_head
    attention_scale: float | None = None  # factor of q·k; default 1 / √head_width
    depth_scale: bool = False  # layer i, from 1, divides it by i, as in some GPT-2
    hidden: int | None = None  # width of the feed-forward: 4 × width, 8/3 × width if gated
    context: int = 256  # tokens per text in training; a limit only for learned positions
    position: Position = "rotary"
    sinusoid: Sinusoid = (
        "pairs"  # pairs: sine and cosine of a frequency side by side; halves: all sines, then all cosines
    )
    relative: RelativeSettings = field(default_factory=RelativeSettings)
    norm: Norm = "rms"  # rms-centred: weights are added to 1
    norm_place: NormPlace = "pre"  # both: before and after each part of a block, within the residual (Gemma 2)
    norm_eps: float = 1e-6
    parallel: bool = False  # attention and feed-forward of a block read the same input, as in GPT-NeoX
    feed_forward: Activation = "swiglu"  # none: blocks without a feed-forward, as in Mamba
    experts: Experts | None = None  # a mixture of experts instead of one feed-forward: see mixture.py
    bias: bool | Bias = False  # True, False, or the matrices with a bias: "qkv", "out", "forward", "qkv out", …
    qk_norm: Norm | None = None
    attention_gate: bool = False  # outputs of heads are multiplied by σ(W·x) before the projection
    softcap: float | None = None  # scores s become c·tanh(s / c), as in Gemma 2
    window: int | None = None  # tokens attend to this many tokens before them (in an encoder also after them)
    window_layers: str = (
        "window"  # which layers have the window: one word for all, or one per layer: "(window×5 full)×4"
    )
    mixer: str = "attention"  # one word for all layers, or one per layer: "mamba2×3 attention"; "latent" is MLA
    state: StateSettings = field(default_factory=StateSettings)
    latent: LatentSettings = field(default_factory=LatentSettings)
    rotary: RotarySettings = field(default_factory=RotarySettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    output: OutputSettings = field(default_factory=OutputSettings)
    dropout: float = 0.0
    init: Init = "normal"  # normal: 0.02, outputs smaller with depth (GPT-2); zero-out: outputs 0; torch: its defaults

    if not TYPE_CHECKING:  # type checkers know the groups alone: flat names are for files and users

        def __init__(self, /, *values: object, **settings: object) -> None:
            """Also take settings of groups by name: Config(rotary_base=1e6), Config(**{"rotary.base": 1e6})."""
            names = [each.name for each in fields(self)]
            assigned = dict(zip(names, values, strict=False)) | group_settings(settings, names)
            for each in fields(self):
                default = each.default if each.default_factory is MISSING else each.default_factory()
                object.__setattr__(self, each.name, assigned.get(each.name, default))
            self.__post_init__()

        def __getattr__(self, name: str) -> Any:
            """Read a setting of a group by its name, as in `getattr(config, "rotary_base")`, or a property by its old one."""
            if name in OLD_NAMES:
                warnings.warn(f"Config.{name} is now Config.{OLD_NAMES[name]}", DeprecationWarning, stacklevel=2)
                return getattr(self, OLD_NAMES[name])
            if name not in GROUP_FIELDS:
                return super().__getattribute__(name)  # raises
            group, inner = GROUP_FIELDS[name]
            return getattr(getattr(self, group), inner)

    def __post_init__(self) -> None:
        for name in GROUPS:
            object.__setattr__(self, name, read_group(name, getattr(self, name)))
        for name, among in CHOICES.items():
            choose(name, getattr(self, name), among)
        check_kinds(self, {})
        for group, names in NAMES.items():
            check_kinds(getattr(self, group), names)
        check_config(self)

    @property
    def read_vocab(self) -> int:
        """The vocabulary size of the side that reads.

        >>> Config(vocab=9).read_vocab, Config(kind="encoder-decoder", vocab=9, source_vocab=7).read_vocab
        (9, 7)
        """
        return self.vocab if self.source_vocab is None else self.source_vocab

    @property
    def layers(self) -> tuple[int, int]:
        """The numbers of encoder layers and of decoder layers.

        >>> Config(n_layer=4).layers, Config(kind="encoder-decoder", n_layer=4, n_decoder_layer=2).layers
        ((0, 4), (4, 2))
        """
        decoder = self.n_layer if self.n_decoder_layer is None else self.n_decoder_layer
        return 0 if self.kind == "decoder" else self.n_layer, 0 if self.kind == "encoder" else decoder

    @property
    def mixers(self) -> tuple[str, ...]:
        """The mixer of each layer. An encoder-decoder has one word for all.

        >>> Config(n_layer=4, mixer="mamba2×3 attention").mixers
        ('mamba2', 'mamba2', 'mamba2', 'attention')
        >>> Config(n_layer=8, mixer="(delta×3 attention)×2").mixers[3::4]
        ('attention', 'attention')
        >>> Config(n_layer=6, mixer="mamba2×3 attention")
        Traceback (most recent call last):
        qkv.i18n.Problem: mixer 'mamba2×3 attention' names 4 layers, but n_layer is 6: give one word for all, or 6
        """
        return self._per_layer("mixer", self.mixer, MIXERS)

    @property
    def feed_forwards(self) -> tuple[str, ...]:
        """The kind of feed-forward of each layer: dense or experts.

        >>> Config(n_layer=3).feed_forwards, Config(n_layer=3, experts=Experts(4, layers="dense experts×2")).feed_forwards
        (('dense', 'dense', 'dense'), ('dense', 'experts', 'experts'))
        """
        if self.experts is None:
            return ("dense",) * max(self.layers)
        return self._per_layer("experts.layers", self.experts.layers, LAYERS)

    @property
    def windows(self) -> tuple[int | None, ...]:
        """The window of each layer, in tokens; None: all.

        >>> Config(n_layer=3, window=7).windows, Config(n_layer=3, window=7, window_layers="window×2 full").windows
        ((7, 7, 7), (7, 7, None))
        """
        words = self._per_layer("window_layers", self.window_layers, ("window", "full"))
        return tuple(self.window if word == "window" else None for word in words)

    @property
    def biased(self) -> frozenset[str]:
        """The matrices with a bias: qkv, out (of attention), forward.

        >>> sorted(Config(bias="qkv out").biased), sorted(Config(bias=True).biased)
        (['out', 'qkv'], ['forward', 'out', 'qkv'])
        """
        if isinstance(self.bias, str):
            return frozenset(self.bias.split())
        return frozenset(("qkv", "out", "forward") if self.bias else ())

    def _per_layer(self, what: str, pattern: str, among: tuple[str, ...]) -> tuple[str, ...]:
        words = layer_words(pattern, among, MOST_LAYERS, what)
        if len(words) == 1:
            return words * max(self.layers)
        if len(words) != self.n_layer or self.kind == "encoder-decoder":
            raise Problem(
                "{what} {pattern!r} names {count} layers, but n_layer is {layers}: give one word for all, or {layers}",
                what=what,
                pattern=pattern,
                count=len(words),
                layers=self.n_layer,
            )
        return words

    def state_sizes(self, word: str) -> StateSizes:
        """Return the sizes of layers of a mixer. Defaults are those of the papers.

        >>> Config(width=128, n_head=4).state_sizes("mamba2"), Config(width=128, n_head=4).state_sizes("delta")
        (StateSizes(heads=8, values=32, groups=1, keys=64), StateSizes(heads=4, values=32, groups=4, keys=32))
        """
        head_width = self.head_width or self.width // self.n_head
        values, heads = self.state.head_width or head_width, self.state.n_head or self.n_head
        if word == "retention":
            keys = self.state.width or head_width
            return StateSizes(heads, self.state.head_width or 2 * keys, heads, keys)
        if word == "mamba2":
            heads = self.state.n_head or max(2 * self.width // values, 1)
            return StateSizes(heads, values, self.state.n_group or 1, self.state.width or 64)
        return StateSizes(heads, values, self.state.n_group or heads, self.state.width or values)

    @property
    def predicts_words(self) -> bool:
        """True if the head gives a logit per word.

        >>> Config().predicts_words, Config(kind="encoder", head="none").predicts_words
        (True, False)
        """
        return self.output.head in ("linear", "mlm")

    @property
    def gated(self) -> bool:
        """True if the feed-forward has a gate, and so three matrices.

        >>> Config(feed_forward="swiglu").gated, Config(feed_forward="gelu").gated
        (True, False)
        """
        return self.feed_forward in ("swiglu", "geglu", "geglu-tanh")

    @property
    def hidden_width(self) -> int:
        """The width of the feed-forward. By default gated and plain ones have about the same number of weights.

        >>> Config(width=128, feed_forward="gelu").hidden_width, Config(width=128, feed_forward="swiglu").hidden_width
        (512, 344)
        """
        if self.hidden is not None:
            return self.hidden
        return -(-8 * self.width // 3 // 8) * 8 if self.gated else 4 * self.width

    def replace(self, /, **changes: Any) -> "Config":
        """Return a copy with some values changed. Unknown names are refused.

        >>> Config(width=64).replace(n_layer=2).n_layer
        2
        """
        return replace(self, **changes)

    def to_dict(self) -> Values:
        """Return plain values by name, for JSON.

        >>> Config(width=64).to_dict()["width"]
        64
        """
        values: Values = {}
        for name, value in asdict(self).items():
            names = NAMES.get(name)
            values |= {names[inner]: value[inner] for inner in names} if names else {name: value}
        return values

    @classmethod
    def from_dict(cls, values: object) -> "Config":
        """Return a config from plain values by name. Unknown names are refused.

        >>> Config.from_dict(Config(width=64).to_dict()) == Config(width=64)
        True
        """
        if not isinstance(values, dict):
            raise Problem("a model is described by names and values, not by {value}", value=repr(values))
        return cls().replace(**values)

    def set(self, assignments: list[str]) -> "Config":
        """Return a copy with `name=value` texts applied, as on the command line. Values are JSON or words.

        >>> Config().set(["width=64", "position=learned", "tied=false"]).tied
        False
        >>> Config().set(["experts.count=8", "experts.per_token=1"]).experts.per_token
        1
        """
        changes: Values = {}
        for text in assignments:
            name, sign, value = text.partition("=")
            if not sign:
                raise Problem("{text!r} is no setting: write name=value, as in width=256", text=text)
            changes[name.strip()] = read_value(value.strip())
        return self.replace(**changes)


def read_value(value: str) -> Any:
    """Return a value from the command line: parsed JSON, else the text."""
    if value.lower() in ("none", "null"):
        return None
    try:
        return json.loads(value.lower() if value.lower() in ("true", "false") else value)
    except (ValueError, RecursionError):  # not JSON, a number of more than 4,300 digits, or nested too deeply
        return value
