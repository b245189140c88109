"""The requests of a browser, a class for each kind, and their validation.

Each field is annotated with a check; unknown fields are refused. A model's name is replaced by its file here, so that no other
module handles names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Annotated, ClassVar, Literal, dataclass_transform, get_args, get_type_hints

from ..i18n import Problem, all_of, unknown
from .frames import Fields
from .openable import OpenableFile

TEXT = 400_000  # characters
EDITS, MORE = 4096, 100_000

Check = Callable[[object], bool]
Part = Literal["encoder", "decoder", "cross", "mixers"]


def _count(most: int) -> Check:
    return lambda value: type(value) is int and 0 <= value <= most


def _number(low: float, high: float) -> Check:
    return lambda value: (
        isinstance(value, int | float) and type(value) is not bool and math.isfinite(value) and low <= value <= high
    )


def _text(most: int) -> Check:
    return lambda value: isinstance(value, str) and len(value) <= most


def _among(*words: object) -> Check:
    return lambda value: value in words and type(value) is not bool


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list(check: Check, most: int) -> Check:
    return lambda value: isinstance(value, list) and len(value) <= most and all(map(check, value))


def _span(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_count(10**8), value)) and value[0] < value[1]


def _edit(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2 or not _text(40)(value[0]):
        return False
    return _among("zero", "uniform", "first", "mean", "self")(value[1]) or _number(0, 2)(value[1])


def _target(value: object) -> bool:
    return value is None or _text(TEXT)(value) or _list(_count(10**8), MORE)(value)


def _spec(value: object) -> bool:
    checks = CHECKS["spec"]
    return isinstance(value, dict) and all(name in checks and checks[name](each) for name, each in value.items())


Index = Annotated[int, _count(10**8)]
Span = Annotated[tuple[int, int], _span]
AnyPart = Annotated[Part, _among(*get_args(Part))]


@dataclass(frozen=True)
class ViewSpec:
    """What a view shows: a text in a model, the tokens generated after it, and the edits of the model's heads."""

    model: Annotated[OpenableFile, _text(1000)]  # a browser sends its name
    text: Annotated[str, _text(TEXT)] = ""
    target: Annotated[str | tuple[int, ...] | None, _target] = None
    more: Annotated[tuple[int, ...], _list(_count(10**8), MORE)] = ()
    edits: Annotated[tuple[tuple[str, str | float], ...], _list(_edit, EDITS)] = ()

    def trace_target(self) -> str | list[int] | None:
        """The target as `qkv.trace` takes it."""
        return list(self.target) if isinstance(self.target, tuple) else self.target


Spec = Annotated[ViewSpec, _spec]


def _checks(kind: type[Request | ViewSpec]) -> dict[str, Check]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in fields(kind)}


# Complete once the module is imported: every request class registers itself.
REQUESTS: dict[str, type[Request]] = {}
CHECKS: dict[str, dict[str, Check]] = {"spec": _checks(ViewSpec)}


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True)
class Request:
    """Base of all requests. Subclasses become frozen dataclasses; `do` is their name in the protocol and in REQUESTS."""

    do: ClassVar[str]

    def __init_subclass__(cls, do: str = "") -> None:
        cls.do = do
        kind = dataclass(frozen=True, kw_only=True)(cls)
        if do:
            REQUESTS[do], CHECKS[do] = kind, _checks(kind)

    def to_json(self) -> Fields:
        """Return the request as the worker receives it; `restore` reads it."""
        return {"do": self.do} | asdict(self)

    def cache_key(self) -> str:
        """Return the key of the response cache: a model counts by name and time of change, not by path."""
        fields = self.to_json()
        for spec in fields.values():
            if isinstance(spec, dict):
                spec["model"] = [spec["model"]["name"], spec["model"]["changed"]]
        return json.dumps(fields, sort_keys=True, ensure_ascii=False)


class SpecRequest(Request):
    """A request about one view."""

    spec: Spec


class ModelsRequest(Request, do="models"):
    """List what can be opened."""


class FetchRequest(Request, do="fetch"):
    """Fetch a model."""

    name: Annotated[str, _text(1000)]


class OpenRequest(SpecRequest, do="open"):
    """Open a model."""


class ViewRequest(SpecRequest, do="view"):
    """The view itself."""


class HeadRequest(SpecRequest, do="head"):
    """q, k and v of one head."""

    part: AnyPart
    layer: Index
    item: Index = 0
    head: Index


class TileRequest(HeadRequest, do="tile"):
    """A rectangle of a head's map, pooled to cells of `tall` × `wide` weights."""

    rows: Span
    cols: Span
    tall: Annotated[int, _count(10**6)]
    wide: Annotated[int, _count(10**6)]
    pool: Annotated[Literal["max", "mean"], _among("max", "mean")]
    sink: Annotated[int, _among(0, 1)] = 0  # 1: leave out the sink keys


class LinksRequest(SpecRequest, do="links"):
    """The heads that link two tokens."""

    part: AnyPart
    item: Index = 0
    query: Index
    key: Index


class WordsRequest(SpecRequest, do="words"):
    """The next words at a position."""

    place: Annotated[int | None, _optional(_count(10**8))] = None
    temperature: Annotated[float, _number(0, 100)] = 1.0
    top_k: Index = 0
    top_p: Annotated[float, _number(0, 1)] = 1.0
    most: Annotated[int, _count(1000)] = 10
    seed: Annotated[int | None, _optional(_count(10**8))] = None


class LossRequest(SpecRequest, do="loss"):
    """The loss of the text."""


class LensRequest(SpecRequest, do="lens"):
    """The next words after every block."""

    place: Index
    most: Annotated[int, _count(50)] = 10


class HeadsRequest(SpecRequest, do="heads"):
    """The pattern of every head."""

    part: AnyPart
    item: Index = 0


class ImportanceRequest(SpecRequest, do="importance"):
    """How much the loss rises without each head."""


class ChangesRequest(Request, do="changes"):
    """The heads that differ between two views."""

    a: Spec
    b: Spec
    part: AnyPart


class TranslationsRequest(SpecRequest, do="translations"):
    """Candidate translations."""

    beams: Annotated[int, _count(16)] = 4


class PageRequest(SpecRequest, do="page"):
    """The one-file page of the view."""

    lang: Annotated[Literal["en", "zh"] | None, _among("en", "zh", None)] = None
    opening: Annotated[tuple[int, ...] | None, _optional(_list(_count(10**8), 2))] = None  # layer, head


class PythonRequest(SpecRequest, do="python"):
    """Python code that computes the view."""

    part: AnyPart
    layer: Index
    head: Index
    query: Index


def parse(message: Fields, find: Callable[..., OpenableFile]) -> Request:
    """Return a browser's request; refuse it if a field is missing, unknown or invalid. `find` returns the file of a name.

    >>> from pathlib import Path
    >>> message = {"do": "links", "spec": {"model": "smollm2"}, "part": "decoder", "query": 7, "key": 1}
    >>> parse(message, lambda name: OpenableFile(name, "", False, "", 0)).to_json()["item"]
    0
    """
    do = message.get("do")
    if not isinstance(do, str) or do not in REQUESTS:
        raise unknown("do", do, REQUESTS)
    checks = CHECKS[do]
    values = {name: value for name, value in message.items() if name not in ("do", "tab", "turn")}
    for name, value in values.items():
        if name not in checks:
            raise unknown(do, name, checks)
        if isinstance(value, bool):
            values[name] = value = int(value)
        if not checks[name](value):
            raise Problem("invalid {name} in {do}: {value}", name=name, do=do, value=str(value)[:80])
    if missing := [
        field.name for field in fields(REQUESTS[do]) if field.default is MISSING and field.name not in values
    ]:
        raise Problem("{do} lacks {names}", do=do, names=all_of(missing))
    if any(isinstance(value, dict) and "model" not in value for value in values.values()):
        raise Problem("{do} lacks {names}", do=do, names=all_of(["model"]))
    return _build(do, values, find)


def restore(message: Fields) -> Request:
    """Return the request that `to_json` wrote, in the worker."""
    values = {name: value for name, value in message.items() if name not in ("do", "ask")}
    return _build(message["do"], values, lambda file: OpenableFile(**file))


def _build(do: str, values: Fields, find: Callable[..., OpenableFile]) -> Request:
    def frozen(value: object) -> object:
        if isinstance(value, dict):
            spec: Fields = {name: find(each) if name == "model" else frozen(each) for name, each in value.items()}
            return ViewSpec(**spec)
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    return REQUESTS[do](**{name: frozen(value) for name, value in values.items()})
