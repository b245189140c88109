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
Supported = dict[str, tuple[Value, ...]]  # setting -> the values that a layout can express, the usual one first
# transformers has several words for some activations.
ACTIVATION_ALIASES = {"swish": "silu", "gelu_pytorch_tanh": "gelu_new", "gelu_python": "gelu"}


class Unsupported(Problem):
    """A layout, or a setting of one, that qkv doesn't know: transformers may."""


class UnsupportedValue(Unsupported):
    """A setting of a config.json that qkv reads with another value only."""

    repair: Callable[[HfConfig], HfConfig]  # returns the same config.json with a value that qkv reads


def unsupported_value(sentence: str, name: str, value: Value, replacement: Value, **values: object) -> UnsupportedValue:
    """Return the refusal of a value; `instead` is one that is read, None that the setting isn't there."""
    problem = UnsupportedValue(sentence, name=name, value=repr(value), **values)
    problem.repair = lambda hf_config: {key: v for key, v in (hf_config | {name: replacement}).items() if v is not None}
    return problem


@dataclass
class ConfigReading:
    """A config.json while it is read, with the tensors beside it and the settings of ours so far."""

    hf_config: HfConfig
    tensors: Mapping[str, Tensor]
    settings: dict[str, Value]

    @property
    def member(self) -> str:
        """The word that transformers has for the model: llama, qwen2, …"""
        return str(self.hf_config["model_type"])


class Entry(ABC):
    """One line of a table."""

    members: tuple[str, ...] = ()  # the members of the family that have it; none: all

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


def activation_form(activations: Mapping[str, str]) -> Form:
    """Return the form of a word, from a table ours -> theirs."""
    return Form(
        lambda word, reading: activation_name(word, activations),
        lambda word, config: activations[word],
    )


def flag_form(yes: Value, no: Value) -> Form:
    """Return the form of what is true or false in theirs, and one of two values in ours."""
    return Form(lambda value, reading: yes if value else no, lambda value, config: value == yes)


PLAIN_FORM = Form(lambda value, reading: value, lambda value, config: value)
WINDOW = Form(  # ours counts the tokens before; theirs counts the token itself too
    lambda value, reading: None if value is None else value - 1,
    lambda value, config: None if value is None else value + 1,
)
BOOL = Form(lambda value, reading: value, lambda value, config: bool(value))
# Settings of ours that may be None -> what they are then.
DERIVED: dict[str, Callable[[Config], Value]] = {
    "hidden": lambda config: config.hidden_width,
    "n_kv_head": lambda config: config.n_head,
    "head_width": lambda config: config.width // config.n_head,
    "n_decoder_layer": lambda config: config.layers[1] or config.layers[0],
    "embedding_width": lambda config: config.width,
    "n_state_head": lambda config: config.state_sizes(_state_mixer(config)).heads,
    "state_head_width": lambda config: config.state_sizes(_state_mixer(config)).values,
    "n_state_group": lambda config: config.state_sizes(_state_mixer(config)).groups,
    "state_width": lambda config: config.state_sizes(_state_mixer(config)).keys,
    "experts.hidden": lambda config: config.hidden_width,
    "rank": lambda config: max(config.width // 4, 8),
    "rope_width": lambda config: max(value_of(config, "head_width") // 2 // 2 * 2, 2),
    "value_width": lambda config: value_of(config, "head_width"),
}


def _state_mixer(config: Config) -> str:
    return "delta" if "delta" in config.mixers else "mamba2"


def value_of(config: Config, name: str) -> Value:
    """Return a setting, `experts.count` too, and where it is None what it is then."""
    value: Value = config
    for part in name.split("."):
        value = getattr(value, part)
    return DERIVED[name](config) if value is None and name in DERIVED else value


class _Missing:
    """No default: a file must say it."""


@dataclass(frozen=True)
class Setting(Entry):
    """One setting under two names."""

    hf_name: str
    name: str
    default: Value = _Missing  # where a file is silent; or a function of what was read
    form: Form = PLAIN_FORM
    falsy_is_missing: bool = False  # null and 0 are silent too
    alias: str = ""  # another name of theirs, which must not say another number
    extra_names: tuple[str, ...] = ()  # under these names it is written, too
    is_written: bool = True

    def read(self, reading: ConfigReading) -> dict[str, Value]:
        """Return ours, by theirs or the default."""
        hf_config = reading.hf_config
        if self.alias and (value := agreed_value(hf_config, self.hf_name, self.alias)) is not None:
            hf_config = {self.hf_name: value}
        elif self.alias:
            hf_config = {}
        if self.default is not _Missing and (
            self.hf_name not in hf_config or (self.falsy_is_missing and not hf_config[self.hf_name])
        ):
            value = self.default(reading) if callable(self.default) else self.default
        else:
            value = hf_config[self.hf_name]
        return {self.name: self.form.read(value, reading)}

    def write(self, config: Config) -> HfConfig:
        """Return theirs."""
        if not self.is_written:
            return {}
        return dict.fromkeys((self.hf_name, *self.extra_names), self.form.write(value_of(config, self.name), config))

    def names(self) -> Pairs:
        """Its two names."""
        return [(self.name, self.hf_name)]


@dataclass(frozen=True)
class Rule(Entry):
    """Keys of theirs that mean something only together."""

    read_all: Callable[[ConfigReading], dict[str, Value] | None] = lambda reading: None
    write_all: Callable[[Config], HfConfig] = lambda config: {}
    hf_names: Mapping[str, str] = field(default_factory=dict)  # ours -> theirs, for messages

    def read(self, reading: ConfigReading) -> dict[str, Value]:
        """Return ours; a rule that only refuses has none."""
        return self.read_all(reading) or {}

    def write(self, config: Config) -> HfConfig:
        """Return theirs."""
        return self.write_all(config)

    def names(self) -> Pairs:
        """The names that messages use."""
        return self.hf_names.items()


@dataclass(frozen=True)
class OptionalEntry(Entry):
    """An entry that some members of a family have, or that is read only if what was read before asks for it."""

    entry: Entry
    members: tuple[str, ...] = ()
    condition: Callable[[ConfigReading], bool] = lambda reading: True

    def read(self, reading: ConfigReading) -> dict[str, Value]:
        """Return ours, or nothing."""
        return self.entry.read(reading) if self.condition(reading) else {}

    def write(self, config: Config) -> HfConfig:
        """Return theirs."""
        return self.entry.write(config)

    def names(self) -> Pairs:
        """The entry's."""
        return self.entry.names()


Table = tuple[Entry, ...]


def for_members(*items: str | Entry) -> Table:
    """Return entries that some members alone have: only("qwen2", "qwen3", Setting(…), …)."""
    members = tuple(item for item in items if isinstance(item, str))
    return tuple(OptionalEntry(item, members) for item in items if not isinstance(item, str))


def when(condition: Callable[[ConfigReading], bool], *entries: Entry) -> Table:
    """Return entries that are read only if what was read before asks for them."""
    return tuple(OptionalEntry(entry, condition=condition) for entry in entries)


def required(name: str, value: Value, is_written: bool = False) -> Rule:
    """Return the entry of a setting that is read with one value only, which may follow from what was read."""

    def read(reading: ConfigReading) -> None:
        require(reading.hf_config, {name: value(reading) if callable(value) else value})

    return Rule(read, lambda config: {name: value} if is_written else {})


def write_only(name: str, value: Value) -> Rule:
    """Return the entry of what is written and not read: a value, or a function of the Config."""
    return Rule(write_all=lambda config: {name: value(config) if callable(value) else value})


def implied(**settings: Value) -> Rule:
    """Return the entry of settings of ours that every file means: values, or functions of what was read."""
    return Rule(lambda reading: {name: v(reading) if callable(v) else v for name, v in settings.items()})


def with_defaults(table: Table, **defaults: Value) -> Table:
    """Return a table with other defaults, by the names of theirs."""
    return tuple(
        replace(entry, default=defaults[entry.hf_name])
        if isinstance(entry, Setting) and entry.hf_name in defaults
        else entry
        for entry in table
    )


def read_only(table: Table, *names: str) -> Table:
    """Return a table in which some settings of theirs are read alone."""
    return tuple(
        replace(entry, is_written=False) if isinstance(entry, Setting) and entry.hf_name in names else entry
        for entry in table
    )


def entries_of(table: Table, member: str) -> Iterator[Entry]:
    """Yield the entries that a member of the family has."""
    return (entry for entry in table if not entry.members or member in entry.members)


def read_table(table: Table, hf_config: HfConfig, tensors: Mapping[str, Tensor], supported: Supported) -> Config:
    """Return the Config that a config.json means; what no entry reads is what the layout usually holds."""
    reading = ConfigReading(hf_config, tensors, {name: values[0] for name, values in supported.items()})
    for entry in entries_of(table, reading.member):
        reading.settings |= entry.read(reading)
    return _without_redundant(reading.settings)


def write_table(table: Table, config: Config, member: str) -> HfConfig:
    """Return the config.json of a Config."""
    hf_config: HfConfig = {"model_type": member}
    for entry in entries_of(table, member):
        hf_config |= entry.write(config)
    return hf_config


def _without_redundant(settings: dict[str, Value]) -> Config:
    """Return the Config, with None where a setting says what is so anyway."""
    width, heads = settings["width"], settings["n_head"]
    implied_values = dict(n_kv_head=heads, embedding_width=width, n_decoder_layer=settings["n_layer"])
    if "head_width" in settings:
        implied_values["value_width"] = head = settings["head_width"]
        settings["head_width"] = None if head * heads == width else head
    settings |= {name: None for name, value in implied_values.items() if name in settings and settings[name] == value}
    config = Config(**settings)
    for mixer in {"mamba2", "delta"} & set(config.mixers):
        for name in ("n_state_head", "state_head_width", "n_state_group", "state_width"):
            without = config.replace(**{name: None})
            if without.state_sizes(mixer) == config.state_sizes(mixer):
                config = without
    return config


def require(hf_config: HfConfig, expected: HfConfig) -> None:
    """Refuse a foreign config with a setting that our model has no word for; what isn't said counts as wanted."""
    for name, value in expected.items():
        if hf_config.get(name, value) != value:
            sentence = _("{name} is {value} in this config.json: qkv reads it with {wanted} only")
            raise unsupported_value(sentence, name, hf_config[name], value, wanted=repr(value))


def agreed_value(hf_config: HfConfig, first: str, second: str) -> Value:
    """Return a number that goes by two names, which no tensor's shape tells apart if they differ; None: not said."""
    a, b = hf_config.get(first, hf_config.get(second)), hf_config.get(second, hf_config.get(first))
    if a != b:
        raise Unsupported(
            "{first} and {second} differ in this config.json ({a} and {b}): qkv reads models in which they are one number",
            first=first,
            second=second,
            a=a,
            b=b,
        )
    return a


def _check_causality(reading: ConfigReading) -> None:
    require(reading.hf_config, dict(is_encoder_decoder=True))
    if "is_causal" in reading.hf_config:
        sentence = _("{name} is {value} in this config.json: qkv reads it with {wanted} only")
        raise unsupported_value(
            sentence, "is_causal", reading.hf_config["is_causal"], None, wanted=Message("nothing said of it")
        )


# An encoder sees all and a decoder what came before; where transformers 5 is told otherwise, it is so for both.
ENCODER_DECODER = Rule(_check_causality)


def activation_name(word: str, activations: Mapping[str, str]) -> str:
    """Return our word for one of theirs, from a table ours -> theirs."""
    for name, hf_word in activations.items():
        if hf_word == ACTIVATION_ALIASES.get(word, word):
            return name
    problem = UnsupportedValue(
        "the activation {word!r} has no word in qkv: it knows {known}", word=word, known=all_of(activations.values())
    )
    accepted = next(iter(activations.values()))
    problem.repair = lambda hf_config: {key: accepted if value == word else value for key, value in hf_config.items()}
    raise problem
