"""The requests of a browser, one class for each kind: everything that it sends is checked here before anything is done.

A field's type has a check beside it; fields that a class doesn't have are refused. A model's name becomes the file that it
stands for, so that no other module handles names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Annotated, ClassVar, Literal, get_args, get_type_hints

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
    checks = CHECKS[ViewSpec]
    return isinstance(value, dict) and all(name in checks and checks[name](each) for name, each in value.items())


Index = Annotated[int, _count(10**8)]
Span = Annotated[tuple[int, int], _span]
AnyPart = Annotated[Part, _among(*get_args(Part))]


@dataclass(frozen=True)
class ViewSpec:
    """What is looked at: a text in a model, what was generated after it, and what is changed in the model's heads."""

    model: Annotated[OpenableFile, _text(1000)]  # a browser sends its name
    text: Annotated[str, _text(TEXT)] = ""
    target: Annotated[str | tuple[int, ...] | None, _target] = None
    more: Annotated[tuple[int, ...], _list(_count(10**8), MORE)] = ()
    edits: Annotated[tuple[tuple[str, str | float], ...], _list(_edit, EDITS)] = ()

    def trace_target(self) -> str | list[int] | None:
        """The target as `qkv.trace` takes it."""
        return list(self.target) if isinstance(self.target, tuple) else self.target


Spec = Annotated[ViewSpec, _spec]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What every request has: the name of its kind."""

    do: ClassVar[str]

    def specs(self) -> Iterator[tuple[str, ViewSpec]]:
        """Yield every description of a view in the request, by its field."""
        return (
            (field.name, value) for field in fields(self) if isinstance(value := getattr(self, field.name), ViewSpec)
        )

    def to_json(self) -> Fields:
        """The request as the worker receives it; `restore` reads it."""
        return {"do": self.do} | asdict(self)

    def cache_key(self) -> str:
        """What two requests for the same have in common: not where a model lies, but when it changed."""
        told = self.to_json()
        for name, spec in self.specs():
            told[name]["model"] = [spec.model.name, spec.model.changed]
        return json.dumps(told, sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class SpecRequest(Request):
    """A request about one view."""

    spec: Spec


@dataclass(frozen=True, kw_only=True)
class ModelsRequest(Request):
    """What can be opened."""

    do = "models"


@dataclass(frozen=True, kw_only=True)
class FetchRequest(Request):
    """Fetch a model."""

    do = "fetch"
    name: Annotated[str, _text(1000)]


@dataclass(frozen=True, kw_only=True)
class OpenRequest(SpecRequest):
    """What a model is."""

    do = "open"


@dataclass(frozen=True, kw_only=True)
class ViewRequest(SpecRequest):
    """The view itself."""

    do = "view"


@dataclass(frozen=True, kw_only=True)
class HeadRequest(SpecRequest):
    """q, k and v of one head."""

    do = "head"
    part: AnyPart
    layer: Index
    item: Index = 0
    head: Index


@dataclass(frozen=True, kw_only=True)
class TileRequest(HeadRequest):
    """A rectangle of a head's map, pooled to cells of `tall` × `wide` weights."""

    do = "tile"
    rows: Span
    cols: Span
    tall: Annotated[int, _count(10**6)]
    wide: Annotated[int, _count(10**6)]
    pool: Annotated[Literal["max", "mean"], _among("max", "mean")]
    sink: Annotated[int, _among(0, 1)] = 0  # 1: without the keys that take what is left over


@dataclass(frozen=True, kw_only=True)
class LinksRequest(SpecRequest):
    """The heads that link two tokens."""

    do = "links"
    part: AnyPart
    item: Index = 0
    query: Index
    key: Index


@dataclass(frozen=True, kw_only=True)
class WordsRequest(SpecRequest):
    """The next words at a place."""

    do = "words"
    place: Annotated[int | None, _optional(_count(10**8))] = None
    temperature: Annotated[float, _number(0, 100)] = 1.0
    top_k: Index = 0
    top_p: Annotated[float, _number(0, 1)] = 1.0
    most: Annotated[int, _count(1000)] = 10
    seed: Annotated[int | None, _optional(_count(10**8))] = None


@dataclass(frozen=True, kw_only=True)
class LossRequest(SpecRequest):
    """The loss of the text."""

    do = "loss"


@dataclass(frozen=True, kw_only=True)
class LensRequest(SpecRequest):
    """The next words after every block."""

    do = "lens"
    place: Index
    most: Annotated[int, _count(50)] = 10


@dataclass(frozen=True, kw_only=True)
class HeadsRequest(SpecRequest):
    """The pattern of every head."""

    do = "heads"
    part: AnyPart
    item: Index = 0


@dataclass(frozen=True, kw_only=True)
class ImportanceRequest(SpecRequest):
    """How much the model needs each head."""

    do = "importance"


@dataclass(frozen=True, kw_only=True)
class ChangesRequest(Request):
    """The heads that differ between two views."""

    do = "changes"
    a: Spec
    b: Spec
    part: AnyPart


@dataclass(frozen=True, kw_only=True)
class TranslationsRequest(SpecRequest):
    """What a translator might say."""

    do = "translations"
    beams: Annotated[int, _count(16)] = 4


@dataclass(frozen=True, kw_only=True)
class PageRequest(SpecRequest):
    """The one-file page of the view."""

    do = "page"
    lang: Annotated[Literal["en", "zh"] | None, _among("en", "zh", None)] = None
    opening: Annotated[tuple[int, ...] | None, _optional(_list(_count(10**8), 2))] = None  # layer, head


@dataclass(frozen=True, kw_only=True)
class PythonRequest(SpecRequest):
    """The lines of Python that compute the view."""

    do = "python"
    part: AnyPart
    layer: Index
    head: Index
    query: Index


KINDS: tuple[type[Request], ...] = (
    ModelsRequest, FetchRequest, OpenRequest, ViewRequest, HeadRequest, TileRequest, LinksRequest, WordsRequest, LossRequest,
    LensRequest, HeadsRequest, ImportanceRequest, ChangesRequest, TranslationsRequest, PageRequest, PythonRequest,
)  # fmt: skip
REQUESTS = {kind.do: kind for kind in KINDS}


def _checks(kind: type[Request | ViewSpec]) -> dict[str, Check]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in fields(kind)}


CHECKS: dict[type[Request | ViewSpec], dict[str, Check]] = {kind: _checks(kind) for kind in (*KINDS, ViewSpec)}


def parse(told: Fields, find: Callable[..., OpenableFile]) -> Request:
    """Return a browser's request; refuse it if a field is missing, unknown or invalid. `find` gives the file of a model's name.

    >>> from pathlib import Path
    >>> told = {"do": "links", "spec": {"model": "smollm2"}, "part": "decoder", "query": 7, "key": 1}
    >>> parse(told, lambda name: OpenableFile(name, "", False, "", 0)).to_json()["item"]
    0
    """
    do = told.get("do")
    if not isinstance(do, str) or do not in REQUESTS:
        raise unknown("do", do, REQUESTS)
    checks = CHECKS[REQUESTS[do]]
    given = {name: value for name, value in told.items() if name not in ("do", "tab", "turn")}
    for name, value in given.items():
        if name not in checks:
            raise unknown(do, name, checks)
        if isinstance(value, bool):
            given[name] = value = int(value)
        if not checks[name](value):
            raise Problem("{name} of {do} can't be meant: {value}", name=name, do=do, value=str(value)[:80])
    if lacking := [
        field.name for field in fields(REQUESTS[do]) if field.default is MISSING and field.name not in given
    ]:
        raise Problem("{do} lacks {names}", do=do, names=all_of(lacking))
    if any(isinstance(value, dict) and "model" not in value for value in given.values()):
        raise Problem("{do} lacks {names}", do=do, names=all_of(["model"]))
    return _build(do, given, find)


def restore(told: Fields) -> Request:
    """Return the request that `to_json` wrote, in the worker."""
    given = {name: value for name, value in told.items() if name not in ("do", "ask")}
    return _build(told["do"], given, lambda file: OpenableFile(**file))


def _build(do: str, given: Fields, find: Callable[..., OpenableFile]) -> Request:
    def frozen(value: object) -> object:
        if isinstance(value, dict):
            spec: Fields = {name: find(each) if name == "model" else frozen(each) for name, each in value.items()}
            return ViewSpec(**spec)
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    return REQUESTS[do](**{name: frozen(value) for name, value in given.items()})
