"""Tables that read and write config.json: each entry defines both directions.

    Setting("n_embd", "width")                                               one value under two names
    Setting("resid_pdrop", "dropout", 0.1, extra_names=("embd_pdrop",))      with a default; written twice
    Setting("sliding_window", "window", None, WINDOW)                        a value that the two count differently
    required("add_cross_attention", False)                                   the only supported value
    write_only("normalize_before", False)                                    written, not read
    Rule(read, write)                                                        keys that are read together
    for_members("mixtral", …)                                                entries of some members of a family

Entries are read in order and may use the settings that were read before.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from ...i18n import Message, Problem, _, all_of
from ...model.config import Config

Value = Any  # any JSON value
HfConfig = dict[str, Value]  # a config.json
Pairs = Iterable[tuple[str, str]]  # our name and theirs
Supported = dict[str, tuple[Value, ...]]  # setting -> supported values, the default first
# transformers' aliases of activations.
ACTIVATION_ALIASES = {"swish": "silu", "gelu_pytorch_tanh": "gelu_new", "gelu_python": "gelu"}


class Unsupported(Problem):
    """A layout or setting that qkv does not support; transformers may."""


class UnsupportedValue(Unsupported):
    """A setting of a config.json for which qkv supports another value."""

    repair: Callable[[HfConfig], HfConfig]  # returns the config.json with a supported value


def unsupported_value(sentence: str, name: str, value: Value, replacement: Value, **values: object) -> UnsupportedValue:
    """Return the error for a value; `replacement` is a supported one, None removes the setting."""
    problem = UnsupportedValue(sentence, name=name, value=repr(value), **values)
    problem.repair = lambda hf_config: {key: v for key, v in (hf_config | {name: replacement}).items() if v is not None}
    return problem


@dataclass
class ConfigReading:
    """A config.json being read, its tensors, and the settings read so far."""

    hf_config: HfConfig
    tensors: Mapping[str, Tensor]
    settings: dict[str, Value]

    @property
    def member(self) -> str:
        """transformers' model_type: llama, qwen2, …"""
        return str(self.hf_config["model_type"])


class Entry(ABC):
    """One line of a table."""

    members: tuple[str, ...] = ()  # members of the family that have it; empty: all

    @abstractmethod
    def read(self, reading: ConfigReading) -> dict[str, Value]:
        """Return our settings."""

    @abstractmethod
    def write(self, config: Config) -> HfConfig:
        """Return their settings."""

    def names(self) -> Pairs:
        """Return pairs of our name and theirs, the preferred first."""
        return ()


@dataclass(frozen=True)
class Form:
    """Conversion of a value between theirs and ours."""

    read: Callable[[Value, ConfigReading], Value]
    write: Callable[[Value, Config], Value]


def activation_form(activations: Mapping[str, str]) -> Form:
    """Return the form of an activation, from a table ours -> theirs."""
    return Form(
        lambda word, reading: activation_name(word, activations),
        lambda word, config: activations[word],
    )


def flag_form(yes: Value, no: Value) -> Form:
    """Return the form of a boolean in theirs that is one of two values in ours."""
    return Form(lambda value, reading: yes if value else no, lambda value, config: value == yes)


PLAIN_FORM = Form(lambda value, reading: value, lambda value, config: value)
WINDOW = Form(  # ours excludes the token itself, theirs includes it
    lambda value, reading: None if value is None else value - 1,
    lambda value, config: None if value is None else value + 1,
)
BOOL = Form(lambda value, reading: value, lambda value, config: bool(value))
# Defaults of settings that may be None.
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
    """Return a setting, such as `experts.count`, or what it is by default if it is None."""
    value: Value = config
    for part in name.split("."):
        value = getattr(value, part)
    return DERIVED[name](config) if value is None and name in DERIVED else value


class _Missing:
    """Marks a setting without a default."""


@dataclass(frozen=True)
class Setting(Entry):
    """One setting under two names."""

    hf_name: str
    name: str
    default: Value = _Missing  # or a function of what was read
    form: Form = PLAIN_FORM
    falsy_is_missing: bool = False  # null and 0 mean the default
    alias: str = ""  # another name of theirs; both must agree
    extra_names: tuple[str, ...] = ()  # further names to write
    is_written: bool = True

    def read(self, reading: ConfigReading) -> dict[str, Value]:
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
        if not self.is_written:
            return {}
        return dict.fromkeys((self.hf_name, *self.extra_names), self.form.write(value_of(config, self.name), config))

    def names(self) -> Pairs:
        return [(self.name, self.hf_name)]


@dataclass(frozen=True)
class Rule(Entry):
    """Settings that are read and written by functions."""

    read_all: Callable[[ConfigReading], dict[str, Value] | None] = lambda reading: None
    write_all: Callable[[Config], HfConfig] = lambda config: {}
    hf_names: Mapping[str, str] = field(default_factory=dict)  # ours -> theirs, for messages

    def read(self, reading: ConfigReading) -> dict[str, Value]:
        return self.read_all(reading) or {}

    def write(self, config: Config) -> HfConfig:
        return self.write_all(config)

    def names(self) -> Pairs:
        return self.hf_names.items()


@dataclass(frozen=True)
class OptionalEntry(Entry):
    """An entry that only some members of a family have, or that is read under a condition."""

    entry: Entry
    members: tuple[str, ...] = ()
    condition: Callable[[ConfigReading], bool] = lambda reading: True

    def read(self, reading: ConfigReading) -> dict[str, Value]:
        return self.entry.read(reading) if self.condition(reading) else {}

    def write(self, config: Config) -> HfConfig:
        return self.entry.write(config)

    def names(self) -> Pairs:
        return self.entry.names()


Table = tuple[Entry, ...]


def for_members(*items: str | Entry) -> Table:
    """Return entries of some members only: for_members("qwen2", "qwen3", Setting(…), …)."""
    members = tuple(item for item in items if isinstance(item, str))
    return tuple(OptionalEntry(item, members) for item in items if not isinstance(item, str))


def when(condition: Callable[[ConfigReading], bool], *entries: Entry) -> Table:
    """Return entries that are read under a condition on what was read before."""
    return tuple(OptionalEntry(entry, condition=condition) for entry in entries)


def required(name: str, value: Value, is_written: bool = False) -> Rule:
    """Return the entry of a setting with a single supported value, or a function of what was read."""

    def read(reading: ConfigReading) -> None:
        require(reading.hf_config, {name: value(reading) if callable(value) else value})

    return Rule(read, lambda config: {name: value} if is_written else {})


def write_only(name: str, value: Value) -> Rule:
    """Return the entry of a setting that is not read: a value, or a function of the Config."""
    return Rule(write_all=lambda config: {name: value(config) if callable(value) else value})


def implied(**settings: Value) -> Rule:
    """Return the entry of settings that the layout implies: values, or functions of what was read."""
    return Rule(lambda reading: {name: v(reading) if callable(v) else v for name, v in settings.items()})


def with_defaults(table: Table, **defaults: Value) -> Table:
    """Return a table with other defaults, by their names."""
    return tuple(
        replace(entry, default=defaults[entry.hf_name])
        if isinstance(entry, Setting) and entry.hf_name in defaults
        else entry
        for entry in table
    )


def read_only(table: Table, *names: str) -> Table:
    """Return a table in which the named settings are not written."""
    return tuple(
        replace(entry, is_written=False) if isinstance(entry, Setting) and entry.hf_name in names else entry
        for entry in table
    )


def entries_of(table: Table, member: str) -> Iterator[Entry]:
    """Yield the entries of a member."""
    return (entry for entry in table if not entry.members or member in entry.members)


def read_table(table: Table, hf_config: HfConfig, tensors: Mapping[str, Tensor], supported: Supported) -> Config:
    """Return the Config of a config.json; settings without an entry have the layout's first supported value."""
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
    """Return the Config, with None for settings that equal their default."""
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
    """Raise an error if a setting of a config.json has an unsupported value; missing settings are fine."""
    for name, value in expected.items():
        if hf_config.get(name, value) != value:
            sentence = _("{name} is {value} in this config.json: qkv reads it with {wanted} only")
            raise unsupported_value(sentence, name, hf_config[name], value, wanted=repr(value))


def agreed_value(hf_config: HfConfig, first: str, second: str) -> Value:
    """Return a number that has two names, or None. Raise an error if the two differ."""
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


# transformers 5 applies is_causal to both sides; qkv's encoder is bidirectional and its decoder causal.
ENCODER_DECODER = Rule(_check_causality)


def activation_name(word: str, activations: Mapping[str, str]) -> str:
    """Return our name of an activation, from a table ours -> theirs."""
    for name, hf_word in activations.items():
        if hf_word == ACTIVATION_ALIASES.get(word, word):
            return name
    problem = UnsupportedValue(
        "the activation {word!r} is not supported: qkv reads {known}", word=word, known=all_of(activations.values())
    )
    accepted = next(iter(activations.values()))
    problem.repair = lambda hf_config: {key: accepted if value == word else value for key, value in hf_config.items()}
    raise problem
