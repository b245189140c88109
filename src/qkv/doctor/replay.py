"""Where a mistake stands, found by running.

The code runs once to see which operations its lines ask for, then again with one of them repaired: the one that makes the
numbers right is the place. Names, and how the code is written, are not looked at.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor

from ..watching import Operation, Watcher, source_span
from .case import Case
from .mistakes import CATALOGUE
from .mistakes.mistake import PRODUCTS, At, Op
from .numbers.match import Matcher
from .numbers.oracle import AttentionForm
from .numbers.watching import contexts_of
from .subject.errors import UserError

Repair = Callable[[Op, At, AttentionForm], Iterator[Any]]
MOST = 60  # expressions that are tried


class Replay(Watcher):
    """Runs code with what some of its operations give put in another's place; `ops` are those that the file asked for."""

    def __init__(self, file: str, change: Callable[[Op], Tensor | None] = lambda op: None) -> None:
        super().__init__()
        self.file, self.change, self.ops = file, change, list[Op]()

    def on_operation(self, operation: Operation) -> Any:
        """Run it, note it if the file asked for it, and return what `change` puts in the place of its result."""
        result = operation.run()
        if not isinstance(result, Tensor) or (span := source_span(self.file)) is None:
            return result
        op = Op(operation.name, operation.args, operation.kwargs, result, span)
        self.ops.append(op)
        new = self.change(op)
        if new is None:
            return result
        return result.copy_(new) if operation.in_place and result.shape == new.shape else new


def line_of(case: Case, id_: str, file: str) -> int | None:
    """The line whose repair proves that this mistake stands there; None where no repair is known or none cures."""
    match, watched, subject = case.match, case.watched, case.subject
    if match is None or watched is None or subject.framework != "torch":
        return None
    if id_ not in match.variant.ids:
        return None
    inputs, repair = case.inputs, CATALOGUE[id_].repair
    targets = list(_without(id_, match.variant.form, match.variant.ids, match.base, match.at))

    def cured(change: Callable[[Op], Tensor | None]) -> bool:
        try:
            with Replay(file, change):
                result = subject(inputs, watch=True)
        except (UserError, RuntimeError, ValueError, IndexError, TypeError):
            return False
        contexts = contexts_of(subject, result, inputs, watched)
        matcher = Matcher(subject, replace(watched, contexts=contexts))
        return any(matcher.error(match.guess, form)[0] < matcher.tolerance for form in targets)

    with Replay(file) as plain:
        subject(inputs)
    ops: dict[tuple[str, tuple[int, int]], Op] = {}
    products = [op for op in plain.ops if op.name in PRODUCTS]  # the last first: that of q and k comes after theirs
    for op in [*(op for op in plain.ops if op.name not in PRODUCTS), *reversed(products)]:
        ops.setdefault(op.key, op)
    ways = [(key, way) for key, op in ops.items() for way in range(_ways(repair, op, match.at, match.variant.form))]
    for key, way in ways[:MOST]:
        if cured(_one(repair, match.at, match.variant.form, {key}, way)):
            return key[1][0]
    for way in range(max((way for _key, way in ways), default=-1) + 1):  # q, k and v, each by a line of its own
        keys = [key for key, one in ways if one == way]
        if len(keys) > 1 and cured(_one(repair, match.at, match.variant.form, set(keys), way)):
            return min(key[1][0] for key in keys)
    return None


def _ways(repair: Repair, op: Op, at: At, form: AttentionForm) -> int:
    try:
        return len(list(repair(op, at, form)))
    except (RuntimeError, ValueError, IndexError, AttributeError, TypeError):
        return 0


def _one(
    repair: Repair, at: At, form: AttentionForm, keys: set[tuple[str, tuple[int, int]]], way: int
) -> Callable[[Op], Tensor | None]:
    def change(op: Op) -> Tensor | None:
        return next(itertools.islice(repair(op, at, form), way, None), None) if op.key in keys else None

    return change


def _without(
    id_: str, form: AttentionForm, ids: tuple[str, ...], base: AttentionForm, at: At
) -> Iterator[AttentionForm]:
    """What the numbers should be once this mistake is mended: right, or with the other one still in it."""
    if id_ == "S6":
        yield replace(form, divide=1.0)
    elif len(ids) == 1:
        yield base
    else:
        for other in ids:
            if other != id_:
                yield from (wrong for wrong, _ in CATALOGUE[other].forms(base, at))
