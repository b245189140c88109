"""What can be asked, and what an ask must look like: everything a browser sends is looked at here, before anything is done.

Each ask has its fields, each field a test; what isn't named is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ..i18n import Problem, all_of, unknown

TEXT = 400_000  # characters
EDITS, MORE = 4096, 100_000
PARTS = ("encoder", "decoder", "cross", "mixers")

Test = Callable[[Any], bool]


def _count(most: int) -> Test:
    return lambda value: type(value) is int and 0 <= value <= most


def _number(low: float, high: float) -> Test:
    return lambda value: type(value) in (int, float) and math.isfinite(value) and low <= value <= high


def _text(most: int) -> Test:
    return lambda value: isinstance(value, str) and len(value) <= most


def _among(*words: object) -> Test:
    return lambda value: value in words and type(value) is not bool


def _span(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_count(10**8), value)) and value[0] < value[1]


def _edit(value: Any) -> bool:
    right = isinstance(value, list) and len(value) == 2 and _text(40)(value[0])
    return right and (_among("zero", "uniform", "first", "mean", "self")(value[1]) or _number(0, 2)(value[1]))


def _spec(value: Any) -> bool:
    return isinstance(value, dict) and all(name in SPEC and SPEC[name](each) for name, each in value.items())


def _some(test: Test, most: int) -> Test:
    return lambda value: isinstance(value, list) and len(value) <= most and all(map(test, value))


SPEC: dict[str, Test] = dict(
    model=_text(1000),
    text=_text(TEXT),
    target=lambda value: value is None or _text(TEXT)(value) or _some(_count(10**8), MORE)(value),
    more=_some(_count(10**8), MORE),
    edits=_some(_edit, EDITS),
)
INDEX = _count(10**8)
HEAD: dict[str, Test] = dict(spec=_spec, part=_among(*PARTS), layer=INDEX, item=INDEX, head=INDEX)
ASKS: dict[str, dict[str, Test]] = dict(
    models={},
    fetch=dict(name=_text(1000)),
    open=dict(spec=_spec),
    view=dict(spec=_spec),
    head=HEAD,
    tile=HEAD
    | dict(
        rows=_span, cols=_span, tall=_count(10**6), wide=_count(10**6), pool=_among("max", "mean"), sink=_among(0, 1)
    ),
    links=dict(spec=_spec, part=_among(*PARTS), item=INDEX, query=INDEX, key=INDEX),
    words=dict(
        spec=_spec,
        place=lambda value: value is None or INDEX(value),
        temperature=_number(0, 100),
        top_k=_count(10**8),
        top_p=_number(0, 1),
        most=_count(1000),
        seed=lambda value: value is None or INDEX(value),
    ),
    loss=dict(spec=_spec),
    lens=dict(spec=_spec, place=INDEX, most=_count(50)),
    heads=dict(spec=_spec, part=_among(*PARTS), item=INDEX),
    importance=dict(spec=_spec),
    changes=dict(a=_spec, b=_spec, part=_among(*PARTS)),
    translations=dict(spec=_spec, beams=_count(16)),
    page=dict(spec=_spec, lang=_among("en", "zh", None), opening=lambda value: value is None or _some(INDEX, 2)(value)),
    python=dict(spec=_spec, part=_among(*PARTS), layer=INDEX, head=INDEX, query=INDEX),
)
USUAL: dict[str, Any] = dict(
    item=0,
    place=None,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    most=10,
    seed=None,
    sink=0,
    beams=4,
    lang=None,
    opening=None,
)


def checked(told: dict[str, Any]) -> dict[str, Any]:
    """The ask with all its fields; refused if one is missing, unknown or can't be meant.

    >>> checked({"do": "links", "spec": {"model": "smollm2"}, "part": "decoder", "query": 7, "key": 1})["item"]
    0
    """
    do = told.get("do")
    if not isinstance(do, str) or do not in ASKS:
        raise unknown("do", do, ASKS)
    fields = ASKS[do]
    given = {name: value for name, value in told.items() if name not in ("do", "tab", "turn")}
    for name, value in given.items():
        if name not in fields:
            raise unknown(do, name, fields)
        if isinstance(value, bool):
            given[name] = value = int(value)
        if not fields[name](value):
            raise Problem("{name} of {do} can't be meant: {value}", name=name, do=do, value=str(value)[:80])
        if isinstance(value, dict):
            given[name] = dict(value)
    asked = {name: given[name] if name in given else USUAL[name] for name in fields if name in given or name in USUAL}
    if lacking := [name for name in fields if name not in asked]:
        raise Problem("{do} lacks {names}", do=do, names=all_of(lacking))
    for _, spec in specs(asked):
        if "model" not in spec:
            raise Problem("{do} lacks {names}", do=do, names=all_of(["model"]))
        for name, value in (("text", ""), ("target", None), ("more", []), ("edits", [])):
            spec.setdefault(name, value)
    return dict(do=do, **asked)


def specs(asked: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every description of a view in an ask, by its field."""
    for name in ("spec", "a", "b"):
        if isinstance(asked.get(name), dict):
            yield name, asked[name]
