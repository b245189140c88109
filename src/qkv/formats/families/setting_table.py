"""How a config.json is read and written: a table of settings, each of which says both directions at once.

    Setting("n_embd", "width")                                        one value under two names
    Setting("resid_pdrop", "dropout", 0.1, also=("embd_pdrop",))      0.1 where a file is silent; written twice
    Setting("sliding_window", "window", None, WINDOW)                 a value that the two count differently
    required("add_cross_attention", False)                            read with this value only
    written("normalize_before", False)                                written, and not read
    Rule(read, write)                                                 keys that mean something only together
    only("mixtral", …)                                                entries of some members of a family alone

Entries are read in order, and may use the settings of ours that were read before.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from ...i18n import Message, Problem, _, all_of
from ...model.config import Config

Value = Any  # whatever JSON can hold: a file may say anything
HfConfig = dict[str, Value]  # a config.json
Pairs = Iterable[tuple[str, str]]  # our name and theirs
Holds = dict[str, tuple[Value, ...]]  # setting -> the values that a layout can express, the usual one first
# transformers has several words for some activations.
SAME = {"swish": "silu", "gelu_pytorch_tanh": "gelu_new", "gelu_python": "gelu"}


class Foreign(Problem):
    """A layout, or a setting of one, that qkv doesn't know: transformers may."""


class Unread(Foreign):
    """A setting of a config.json that qkv reads with another value only."""

    cure: Callable[[HfConfig], HfConfig]  # returns the same config.json with a value that qkv reads


def unread(sentence: str, name: str, value: Value, instead: Value, **values: object) -> Unread:
    """Return the refusal of a value; `instead` is one that is read, None that the setting isn't there."""
    problem = Unread(sentence, name=name, value=repr(value), **values)
    problem.cure = lambda theirs: {key: kept for key, kept in (theirs | {name: instead}).items() if kept is not None}
    return problem


@dataclass
class ConfigReading:
    """A config.json while it is read, with the tensors beside it and the settings of ours so far."""

    theirs: HfConfig
    tensors: Mapping[str, Tensor]
    ours: dict[str, Value]

    @property
    def member(self) -> str:
        """The word that transformers has for the model: llama, qwen2, …"""
        return str(self.theirs["model_type"])


class Entry(ABC):
    """One line of a table."""

    of: tuple[str, ...] = ()  # the members of the family that have it; none: all

    @abstractmethod
    def read(self, reading: ConfigReading) -> dict[str, Value]:
        """Return the settings of ours that it means."""

    @abstractmethod
    def write(self, config: Config) -> HfConfig:
        """Return what config.json says of it."""

    def names(self) -> Pairs:
        """Return our name of each of its settings, and theirs, the best known first."""
        return ()


@dataclass(frozen=True)
class Form:
    """How the two say the same value."""

    read: Callable[[Value, ConfigReading], Value]
    write: Callable[[Value, Config], Value]


def words(activations: Mapping[str, str]) -> Form:
    """Return the form of a word, from a table ours -> theirs."""
    return Form(lambda word, reading: word_of(word, activations), lambda word, config: activations[word])


def choice(yes: Value, no: Value) -> Form:
    """Return the form of what is true or false in theirs, and one of two values in ours."""
    return Form(lambda value, reading: yes if value else no, lambda value, config: value == yes)


PLAIN_FORM = Form(lambda value, reading: value, lambda value, config: value)
WINDOW = Form(  # ours counts the tokens before; theirs counts the token itself too
    lambda value, reading: None if value is None else value - 1,
    lambda value, config: None if value is None else value + 1,
)
TRUTH = Form(lambda value, reading: value, lambda value, config: bool(value))
# Settings of ours that may be None -> what they are then.
UNSAID: dict[str, Callable[[Config], Value]] = {
    "hidden": lambda config: config.hidden_width,
    "n_kv_head": lambda config: config.n_head,
    "head_width": lambda config: config.width // config.n_head,
    "n_decoder_layer": lambda config: config.layers[1] or config.layers[0],
    "embedding_width": lambda config: config.width,
    "n_state_head": lambda config: config.state_sizes(_state(config)).heads,
    "state_head_width": lambda config: config.state_sizes(_state(config)).values,
    "n_state_group": lambda config: config.state_sizes(_state(config)).groups,
    "state_width": lambda config: config.state_sizes(_state(config)).keys,
    "experts.hidden": lambda config: config.hidden_width,
    "rank": lambda config: max(config.width // 4, 8),
    "rope_width": lambda config: max(value_of(config, "head_width") // 2 // 2 * 2, 2),
    "value_width": lambda config: value_of(config, "head_width"),
}


def _state(config: Config) -> str:
    return "delta" if "delta" in config.mixers else "mamba2"


def value_of(config: Config, name: str) -> Value:
    """Return a setting, `experts.count` too, and where it is None what it is then."""
    value: Value = config
    for part in name.split("."):
        value = getattr(value, part)
    return UNSAID[name](config) if value is None and name in UNSAID else value


class _Missing:
    """No default: a file must say it."""


@dataclass(frozen=True)
class Setting(Entry):
    """One setting under two names."""

    theirs: str
    ours: str
    default: Value = _Missing  # where a file is silent; or a function of what was read
    form: Form = PLAIN_FORM
    empty: bool = False  # null and 0 are silent too
    second: str = ""  # another name of theirs, which must not say another number
    also: tuple[str, ...] = ()  # under these names it is written, too
    is_written: bool = True

    def read(self, reading: ConfigReading) -> dict[str, Value]:
        """Return ours, by theirs or the default."""
        theirs = reading.theirs
        if self.second and (value := one_number(theirs, self.theirs, self.second)) is not None:
            theirs = {self.theirs: value}
        elif self.second:
            theirs = {}
        if self.default is not _Missing and (self.theirs not in theirs or (self.empty and not theirs[self.theirs])):
            value = self.default(reading) if callable(self.default) else self.default
        else:
            value = theirs[self.theirs]
        return {self.ours: self.form.read(value, reading)}

    def write(self, config: Config) -> HfConfig:
        """Return theirs."""
        if not self.is_written:
            return {}
        return dict.fromkeys((self.theirs, *self.also), self.form.write(value_of(config, self.ours), config))

    def names(self) -> Pairs:
        """Its two names."""
        return [(self.ours, self.theirs)]


@dataclass(frozen=True)
class Rule(Entry):
    """Keys of theirs that mean something only together."""

    read_all: Callable[[ConfigReading], dict[str, Value] | None] = lambda reading: None
    write_all: Callable[[Config], HfConfig] = lambda config: {}
    named: Mapping[str, str] = field(default_factory=dict)  # ours -> theirs, for messages

    def read(self, reading: ConfigReading) -> dict[str, Value]:
        """Return ours; a rule that only refuses has none."""
        return self.read_all(reading) or {}

    def write(self, config: Config) -> HfConfig:
        """Return theirs."""
        return self.write_all(config)

    def names(self) -> Pairs:
        """The names that messages use."""
        return self.named.items()


@dataclass(frozen=True)
class OptionalEntry(Entry):
    """An entry that some members of a family have, or that is read only if what was read before asks for it."""

    entry: Entry
    of: tuple[str, ...] = ()
    when: Callable[[ConfigReading], bool] = lambda reading: True

    def read(self, reading: ConfigReading) -> dict[str, Value]:
        """Return ours, or nothing."""
        return self.entry.read(reading) if self.when(reading) else {}

    def write(self, config: Config) -> HfConfig:
        """Return theirs."""
        return self.entry.write(config)

    def names(self) -> Pairs:
        """The entry's."""
        return self.entry.names()


Table = tuple[Entry, ...]


def only(*of: str | Entry) -> Table:
    """Return entries that some members alone have: only("qwen2", "qwen3", Setting(…), …)."""
    members = tuple(word for word in of if isinstance(word, str))
    return tuple(OptionalEntry(entry, members) for entry in of if not isinstance(entry, str))


def when(asks: Callable[[ConfigReading], bool], *entries: Entry) -> Table:
    """Return entries that are read only if what was read before asks for them."""
    return tuple(OptionalEntry(entry, when=asks) for entry in entries)


def required(name: str, value: Value, written: bool = False) -> Rule:
    """Return the entry of a setting that is read with one value only, which may follow from what was read."""

    def read(reading: ConfigReading) -> None:
        insist(reading.theirs, {name: value(reading) if callable(value) else value})

    return Rule(read, lambda config: {name: value} if written else {})


def written(name: str, value: Value) -> Rule:
    """Return the entry of what is written and not read: a value, or a function of the Config."""
    return Rule(write_all=lambda config: {name: value(config) if callable(value) else value})


def always(**settings: Value) -> Rule:
    """Return the entry of settings of ours that every file means: values, or functions of what was read."""
    return Rule(lambda reading: {name: v(reading) if callable(v) else v for name, v in settings.items()})


def but(table: Table, **defaults: Value) -> Table:
    """Return a table with other defaults, by the names of theirs."""
    return tuple(
        replace(entry, default=defaults[entry.theirs])
        if isinstance(entry, Setting) and entry.theirs in defaults
        else entry
        for entry in table
    )


def unwritten(table: Table, *names: str) -> Table:
    """Return a table in which some settings of theirs are read alone."""
    return tuple(
        replace(entry, is_written=False) if isinstance(entry, Setting) and entry.theirs in names else entry
        for entry in table
    )


def of_member(table: Table, member: str) -> Iterator[Entry]:
    """Yield the entries that a member of the family has."""
    return (entry for entry in table if not entry.of or member in entry.of)


def read_table(table: Table, theirs: HfConfig, tensors: Mapping[str, Tensor], holds: Holds) -> Config:
    """Return the Config that a config.json means; what no entry reads is what the layout usually holds."""
    reading = ConfigReading(theirs, tensors, {name: values[0] for name, values in holds.items()})
    for entry in of_member(table, reading.member):
        reading.ours |= entry.read(reading)
    return _shortest(reading.ours)


def write_table(table: Table, config: Config, member: str) -> HfConfig:
    """Return the config.json of a Config."""
    theirs: HfConfig = {"model_type": member}
    for entry in of_member(table, member):
        theirs |= entry.write(config)
    return theirs


def _shortest(ours: dict[str, Value]) -> Config:
    """Return the Config, with None where a setting says what is so anyway."""
    width, heads = ours["width"], ours["n_head"]
    usual = dict(n_kv_head=heads, embedding_width=width, n_decoder_layer=ours["n_layer"])
    if "head_width" in ours:
        usual["value_width"] = head = ours["head_width"]
        ours["head_width"] = None if head * heads == width else head
    ours |= {name: None for name, value in usual.items() if name in ours and ours[name] == value}
    config = Config(**ours)
    for word in {"mamba2", "delta"} & set(config.mixers):
        for name in ("n_state_head", "state_head_width", "n_state_group", "state_width"):
            shorter = config.replace(**{name: None})
            if shorter.state_sizes(word) == config.state_sizes(word):
                config = shorter
    return config


def insist(theirs: HfConfig, wanted: HfConfig) -> None:
    """Refuse a foreign config with a setting that our model has no word for; what isn't said counts as wanted."""
    for name, value in wanted.items():
        if theirs.get(name, value) != value:
            sentence = _("{name} is {value} in this config.json: qkv reads it with {wanted} only")
            raise unread(sentence, name, theirs[name], value, wanted=repr(value))


def one_number(theirs: HfConfig, first: str, second: str) -> Value:
    """Return a number that goes by two names, which no tensor's shape tells apart if they differ; None: not said."""
    a, b = theirs.get(first, theirs.get(second)), theirs.get(second, theirs.get(first))
    if a != b:
        raise Foreign(
            "{first} and {second} differ in this config.json ({a} and {b}): qkv reads models in which they are one number",
            first=first,
            second=second,
            a=a,
            b=b,
        )
    return a


def _both_sides(reading: ConfigReading) -> None:
    insist(reading.theirs, dict(is_encoder_decoder=True))
    if "is_causal" in reading.theirs:
        sentence = _("{name} is {value} in this config.json: qkv reads it with {wanted} only")
        raise unread(sentence, "is_causal", reading.theirs["is_causal"], None, wanted=Message("nothing said of it"))


# An encoder sees all and a decoder what came before; where transformers 5 is told otherwise, it is so for both.
SIDES = Rule(_both_sides)


def word_of(theirs: str, activations: Mapping[str, str]) -> str:
    """Return our word for one of theirs, from a table ours -> theirs."""
    for ours, word in activations.items():
        if word == SAME.get(theirs, theirs):
            return ours
    problem = Unread(
        "the activation {word!r} has no word in qkv: it knows {known}", word=theirs, known=all_of(activations.values())
    )
    known = next(iter(activations.values()))
    problem.cure = lambda told: {name: known if value == theirs else value for name, value in told.items()}
    raise problem
