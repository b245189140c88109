"""Caches: a text in pieces must give what it gives at once. How a cache is handed on: ways.py."""

import copy
import inspect
import re
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...i18n import _
from ..case import Case
from ..subject.adapt import frequencies
from ..subject.errors import UserError
from ..subject.subject import Subject
from ..subject.values import copied, settings
from .probe import size_of
from .ways import BATCH, Way, batch_of, caches, given_back, way_of

Array = np.ndarray
NO_WAY = _("its cache: no way was found to hand it from one call to the next")
NOT_FINITE = _("its cache: the output has NaN, so that its numbers can't be compared")


def examine(case: Case) -> None:
    """Token by token, and in pieces of three, against the whole."""
    subject = case.subject
    module = isinstance(subject.owner, nn.Module) and subject.framework == "torch"
    goes_on = subject.left is not None  # a call was seen to go on from the one before
    if not (goes_on or (module and subject.layout in ("bnc", "nbc", "ids"))) or case.has("H1", "H2", "H3", "H9", "M14"):
        return
    causal = (
        case.support is not None
        and case.support.shape[0] == case.support.shape[1]
        and not np.triu(case.support, 1).any()
    )
    way = way_of(case)
    if way is None:
        return
    case.cache = way.parameter
    if subject.inputs != ["x"]:
        case.miss("cache", NO_WAY)
        return
    if way.streams:
        _stream(case, way)
        return
    window = subject.declared.get("window") or 0
    n = max(subject.sizes.queries, int(window) + 5) if window else subject.sizes.queries
    if subject.chosen.get("context") and n > subject.chosen["context"]:
        n = subject.sizes.queries
    inputs = subject.draw(11, n=n, batch=batch_of(subject))
    try:
        _copy(subject)
    except Refused as error:
        case.stopped("cache", error)
        return
    ring = bool(window) and bool(re.search(RING, case.says.segment))
    reference = _whole(case, inputs, causal or ring, n)
    if reference is None:
        case.miss("cache", NO_WAY)
        return
    refused: Exception | None = None
    ones = None
    for one in [way] if way.kind != "object" or way.make else [replace(way, make=make) for make in caches(case)]:
        way = one
        try:
            ones = _pieces(case, way, inputs["x"], [1] * n, reference, causal or ring)
            if ones is None:
                break
            if _driven(case, way, inputs["x"], ones, causal or ring):
                break
            ones = None
        except (UserError, Refused) as error:
            refused = error
    if ones is None:
        case.stopped("cache", refused) if refused else case.miss("cache", NO_WAY)
        return
    if not np.isfinite(ones).all() or not np.isfinite(reference).all():
        case.miss("cache", NOT_FINITE)
        return
    case.checked.append("cache")
    change = _difference(ones, reference)
    if change > 1e-5:
        _name_ones(case, way, ones, reference, change, inputs, window)
        return
    if way.method or (case.says.library and subject.masks):
        return  # one token at a time is all that it takes; a library's model hands the mask of each piece to its attention
    first = max(2, n // 2)
    for split in ([first, n - first], [2, 3, *[1] * (n - 5)] if n > 5 else [n]):
        try:
            pieces = _pieces(case, way, inputs["x"], split, reference, causal)
        except (UserError, Refused) as error:
            case.stopped("cache in pieces", error)
            return
        if pieces is None:
            return
        change = _difference(pieces, reference)
        if change > 1e-5:
            _name_pieces(case, way, inputs["x"], split, change, window)
            return


def _stream(case: Case, way: Way) -> None:
    """Whatever the pieces, the answers are the same: of a few tokens, and of more than can be kept.

    A call of many tokens may be what is wrong: then what it says of the first ones changes with those that follow.
    """
    try:
        few = case.subject.draw(11, n=4, batch=batch_of(case.subject))
        ones, pieces, whole = (_pieces(case, way, few["x"], split, few["x"], True) for split in ([1] * 4, [2, 2], [4]))
    except (UserError, Refused) as error:
        case.stopped("cache", error)
        return
    if ones is None or pieces is None or whole is None or not _driven(case, way, few["x"], ones, True):
        case.miss("cache", NO_WAY)
        return
    if not all(np.isfinite(output).all() for output in (ones, pieces, whole)):
        case.miss("cache", NOT_FINITE)
        return
    case.checked.append("cache")
    if (change := _difference(pieces, whole)) > 1e-5 and _difference(ones, whole) < 1e-5:
        return _name_pieces(case, way, few["x"], [2, 2], change, 0)
    if (change := _difference(ones, whole)) > 1e-5:
        return _name_ones(case, way, ones, whole, change, few, 0)
    for n in (42, 21):
        many = case.subject.draw(12, n=n, batch=batch_of(case.subject))
        try:
            ones, pieces, whole = (
                _pieces(case, way, many["x"], split, few["x"], True) for split in ([1] * n, [3, 4] * (n // 7), [n])
            )
        except (UserError, Refused):  # longer than it takes
            continue
        assert ones is not None and pieces is not None and whole is not None
        if (change := _difference(pieces, ones)) > 1e-5:
            case.add("K4", "pieces", change=change)
        elif _difference(whole[:, :3], ones[:, :3]) < 1e-5 < (change := _difference(ones, whole)):
            _name_ones(case, way, ones, whole, change, many, 0)
        return None
    return None


def _driven(case: Case, way: Way, x: Array, ones: Array, causal: bool) -> bool:
    """Whether later tokens hear of the first one at all: else the cache was not handed on as its author means."""
    other = _moved(x, 0)
    moved = _pieces(case, way, other, [1] * x.shape[1], ones, causal)
    return moved is not None and bool(np.abs(moved - ones)[:, 1].max() > 1e-9 * size_of(ones))


def _moved(x: Array, place: int) -> Array:
    """Another token at that place of every text."""
    other = x.copy()
    other[:, place] += 1 if x.dtype.kind == "i" else np.random.default_rng(7 + place).standard_normal(x.shape[-1])
    if x.dtype.kind == "i":
        other[:, place] = 2 + (other[:, place] - 2) % max(1, x.max() - 2)
    return other


RING = r"%\s*[\w.]*(window|size|len|cap)|ring|roll|circular"


class Refused(Exception):
    """The cache can't be driven this way."""


def _difference(one: Array, two: Array) -> float:
    return float(np.abs(np.nan_to_num(one) - np.nan_to_num(two)).max() / size_of(two))


def _whole(case: Case, inputs: dict[str, Array], causal: bool, n: int) -> Array | None:
    """All at once, with a triangle handed over where the code draws none itself."""
    subject = _copy(case.subject)
    try:
        return subject(inputs, _tables(case, 0, n) | (_triangle(case, 0, n) if not causal else {})).output
    except UserError:
        return None


def _triangle(case: Case, start: int, n: int) -> dict[str, Any]:
    """For n new tokens: what was there, and of the new ones those not after it."""
    for parameter, form in case.formats.items():
        keep = np.tril(np.ones((BATCH, n, start + n), bool), start)
        given = form.encode(keep, case.heads, "torch", case.subject.dtype)
        if given is not None:
            return {parameter: given}
    raise UserError(ValueError("not causal, and no mask to make it so"))


def _copy(subject: Subject) -> Subject:
    """One whose buffers are its own."""
    twin = copy.copy(subject)
    try:
        twin.owner = copied(subject.owner)
    except Exception as error:  # tensors with a history can't be copied
        raise Refused(str(error)) from None
    twin.function = (
        twin.owner if isinstance(subject.function, nn.Module) else getattr(twin.owner, subject.function.__name__)
    )
    return twin


def _tables(case: Case, start: int, length: int) -> dict[str, Any]:
    """Rotary tables and positions of these tokens, where the caller hands them over."""
    found: dict[str, Any] = {}
    n = case.subject.sizes.queries
    for parameter, given in case.subject.fixed.items():
        r = case.subject.roles.get(parameter)
        if r == "frequencies":
            whole = _full(case, parameter, given)
            if _length(given) == n and _length(whole) < start + length:
                raise Refused("tables of one length")
            found[parameter] = _narrow(whole, start, length) if _length(given) == n else given
        elif r == "positions":
            shaped = torch.arange(start, start + length)
            found[parameter] = (
                shaped[None].expand(min(given.shape[0], BATCH), -1)
                if isinstance(given, Tensor) and given.dim() == 2
                else shaped
            )
    return found


def _full(case: Case, parameter: str, given: Any) -> Any:
    """The table that the one in use was cut from."""
    n = case.subject.sizes.queries
    for table in frequencies(parameter, case.subject.sizes, case.space):
        if _length(table) > n and _same(_narrow(table, 0, n), given):
            return table
    return given


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, (tuple, list)):
        return isinstance(two, (tuple, list)) and all(_same(a, b) for a, b in zip(one, two, strict=False))
    return (
        isinstance(two, Tensor)
        and one.shape == two.shape
        and bool(np.array_equal(one.numpy(), two.to(one.dtype).numpy()))
    )


def _length(table: Any) -> int:
    if isinstance(table, (tuple, list)):
        return _length(table[0])
    return max((s for s in table.shape[:-1]), default=0) if isinstance(table, Tensor) else 0


def _narrow(table: Any, start: int, length: int) -> Any:
    if isinstance(table, (tuple, list)):
        return type(table)(_narrow(t, start, length) for t in table)
    axis = max(range(table.dim() - 1), key=lambda a: table.shape[a]) if table.dim() > 1 else 0
    return table.narrow(axis, start, length)


def _pieces(case: Case, way: Way, x: Array, split: list[int], reference: Array, causal: bool) -> Array | None:
    """The outputs of all pieces, one after another."""
    subject = _copy(case.subject)
    if subject.left is not None:
        subject.left.restore(subject.owner)
        subject.carrying = True
    if way.method:
        subject.function = getattr(subject.owner, way.method)
        first = next(iter(inspect.signature(subject.function).parameters))
        subject.roles = {first: "x", way.parameter: "cache"}
    given: Any = None
    if way.kind == "object":
        with settings(subject.dtype):
            given = way.make() if way.make is not None else None
    at = 0
    outputs = []
    for length in split:
        arguments: dict[str, Any] = {**way.flags, **_tables(case, at, length)}
        if way.kind == "start":
            arguments[way.parameter] = _start(case.subject.fixed.get(way.parameter), at, length)
        elif way.kind in ("past", "object") and given is not None:
            arguments[way.parameter] = given
        if not causal and length > 1:
            arguments |= _triangle(case, at, length)
        result = subject({"x": x[:, at : at + length]}, arguments)
        outputs.append(result.output)
        if way.kind == "past":
            given = given_back(result.raw, result.graph, given)
            if given is None:
                if at == 0:
                    return None
                raise Refused("no past came back")
        at += length
    return np.concatenate(outputs, 1)


def _start(fixed: Any, at: int, length: int) -> Any:
    return torch.arange(at, at + length) if isinstance(fixed, Tensor) and fixed.dim() else at


def _name_ones(case: Case, way: Way, ones: Array, reference: Array, change: float, inputs: Any, window: int) -> None:
    """One token at a time is wrong: by its position, by a buffer that was overwritten, by something else."""
    rows = np.abs(ones - reference).max((0, 2)) / size_of(reference)
    first = int(np.flatnonzero(rows > 1e-6)[0])
    text = case.says.segment
    if window and re.search(RING, text):
        case.add("K4", change=change, place=first)
    elif window and first >= 1 and re.search(r"window|trim|keep|-\s*\w+\s*:", text) and first >= int(window) - 2:
        case.add("K5", change=change, place=first)
    elif _blind(case, way, inputs["x"], ones, [1] * ones.shape[1]):
        case.add("K2", change=change, place=first)
    elif re.search(r"rotar|rope|freqs|\bcos\b|\bsin\b|position", text) and not _first_head_alone(
        case, way, inputs, reference
    ):
        case.add("K1", change=change, place=first)
    else:
        case.add("K5", change=change, place=first)


def _first_head_alone(case: Case, way: Way, inputs: Any, reference: Array) -> bool:
    """Whether the first head is right where the others aren't."""
    match, watched = case.match, case.watched
    if match is None or watched is None or watched.place < 0:
        return False
    heads = match.at.heads
    n = inputs["x"].shape[1]
    try:
        whole = case.subject(inputs, watch=True).seen.products[watched.place].taken
        twin = _copy(case.subject)
        given: Any = None
        last = None
        for at in range(n):
            arguments: dict[str, Any] = {**way.flags, **_tables(case, at, 1)}
            if way.kind == "start":
                arguments[way.parameter] = _start(case.subject.fixed.get(way.parameter), at, 1)
            elif given is not None:
                arguments[way.parameter] = given
            result = twin({"x": inputs["x"][:, at : at + 1]}, arguments, watch=True)
            last = result.seen.products[watched.place].taken
            given = given_back(result.raw, result.graph, given) if way.kind == "past" else given
    except (UserError, IndexError, Refused):
        return False
    if last is None or whole.dim() != 3 or last.dim() != 3:
        return False
    gap = (whole[:, -1] - last[:, -1]).abs().reshape(len(whole), heads, -1).amax((0, 2))
    return bool(gap[0] < 1e-9 < gap[1:].max())


def _name_pieces(case: Case, way: Way, x: Array, split: list[int], change: float, window: int) -> None:
    """Single tokens are right, pieces aren't: does a token of the piece see the one after it?"""
    text = case.says.segment
    if window and re.search(RING, text):
        case.add("K4", change=change)
        return
    place = split[0] + split[1] - 1
    other = _moved(x, place)
    try:
        one = _pieces(case, way, x, split, x, True)
        two = _pieces(case, way, other, split, x, True)
    except (UserError, Refused):
        return
    if one is None or two is None:
        return
    leak = np.abs(one - two)[:, split[0] : place].max() if place > split[0] else 0.0
    if leak > 1e-9 * size_of(one):
        case.add("K3", change=change)
        return
    case.add("K2" if _blind(case, way, x, one, split) else "K1", change=change, place=split[0])


def _blind(case: Case, way: Way, x: Array, before: Array, split: list[int]) -> bool:
    """With the triangle at the upper left the first token of a later piece sees key 0 alone."""
    early = _moved(x, 1)
    place = max(split[0], 3)
    try:
        after = _pieces(case, way, early, split, x, True)
    except (UserError, Refused):
        return False
    return after is not None and bool(np.abs(after - before)[:, place].max() < 1e-9 * size_of(before))
