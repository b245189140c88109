"""One subject under examination: what was built, watched and matched so far; probes read it, the doctor fills it."""

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..words import Message, _, quoted
from .mistakes import CATALOGUE
from .numbers.match import Guess, Match, Watched, poked, watch
from .report import Finding, Remark
from .subject import rehearsal, usage
from .subject.adapt import subjects
from .subject.building import Built, builds
from .subject.guess import Sizes
from .subject.makers import Made
from .subject.subject import CannotRun, Subject, UserError, describe, endless, last_line, line_of, lines_of

# What each probe looks at, for the report.
PROBES = {
    "batch": _("texts beside each other in a batch"),
    "cache": _("its cache, one token at a time"),
    "cache in pieces": _("its cache, several tokens at a time"),
    "constant values": _("values that are all alike"),
    "cost": _("what it costs"),
    "dropout": _("dropout"),
    "every input counts": _("whether every input counts"),
    "every weight counts": _("whether every weight counts"),
    "gradient": _("the gradient"),
    "growth": _("inputs twice as large"),
    "half": _("half precision"),
    "inputs untouched": _("whether inputs stay as they are"),
    "inventory": _("which projections it has"),
    "large": _("large scores"),
    "layers of their own": _("whether layers have weights of their own"),
    "lengths": _("other lengths"),
    "masks together": _("two masks at once"),
    "numbers": _("the numbers, one by one"),
    "order": _("shuffled tokens"),
    "other keys": _("keys of another number than queries"),
    "registered": _("whether all its weights are registered"),
    "repeat": _("the same call twice"),
    "rotary": _("rotary positions"),
    "second call": _("a second call with another width"),
    "training": _("training mode"),
    "who sees whom": _("who sees whom"),
    "window": _("the width of the window"),
}

TRIES = 400  # ways to build and to call it that are tried before it is said to be none of those we know


@dataclass
class Found:
    """A mistake with its evidence: a sentence and the numbers in it."""

    id: str
    sentence: str
    values: dict[str, Any] = field(default_factory=dict)
    line: int | None = None
    certain: bool = True


def rounded(error: float) -> float:
    """Up to the next power of ten, never below what float64 can tell: the same on every machine.

    >>> rounded(2.3e-16), rounded(4e-8)
    (1e-15, 1e-07)
    """
    return 10.0 ** max(-15, math.ceil(math.log10(error or 1e-15)))


@dataclass
class Case:
    """Everything known about the subject."""

    subject: Subject
    facts: dict[str, Any]  # from the source
    options: dict[str, Any]
    space: dict[str, Any]
    support: np.ndarray | None = None  # (N, N): does output i move with input j?
    across: bool = False  # does one text's output move with another's?
    watched: Watched | None = None
    options_: list[Guess] = field(default_factory=list)
    match: Match | None = None
    founds: list[Found] = field(default_factory=list)
    inner: list[Finding] = field(default_factory=list)  # in the parts that it is made of
    remarks: list[Remark] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # what doesn't apply
    unseen: dict[str, Message] = field(default_factory=dict)  # what does, and was not looked at
    mask_format: str = ""
    made: list[Made] = field(default_factory=list)  # the masks that the file around it makes
    handed: list[Made] = field(default_factory=list)  # of them, those that it hands to the subject itself
    notes: dict[str, Any] = field(default_factory=dict)

    def add(
        self,
        id_: str,
        how: str = "",
        /,
        *,
        sentence: str = "",
        line: int | None = None,
        certain: bool = True,
        **values: Any,
    ) -> None:
        """Note a mistake, once; the sentence is the mistake's own for evidence seen in this way, unless it is given."""
        if "error" in values and isinstance(values["error"], float):
            values["error"] = rounded(values["error"])
        if not any(found.id == id_ for found in self.founds):
            self.founds.append(Found(id_, sentence or CATALOGUE[id_].evidence[how], values, line, certain))

    def remark(self, id_: str, sentence: str, /, line: int | None = None, **values: Any) -> None:
        """Note something worth knowing that is no mistake, once."""
        remark = Remark(id_, Message(sentence, **values), line)
        if remark not in self.remarks:
            self.remarks.append(remark)

    def miss(self, what: str, sentence: str, /, **values: Any) -> None:
        """Note what should have been looked at and could not be: with this the verdict is never "right"."""
        self.unseen.setdefault(what, Message(sentence, **values))

    def stopped(self, probe: str, error: BaseException) -> None:
        """Note a probe that applies, and that the user's code did not let through."""
        text = str(error) if isinstance(error, UserError) else last_line(error)
        self.miss(probe, _("{what}: stopped with {error}"), what=Message(PROBES[probe]), error=quoted(text))

    def has(self, *ids: str) -> bool:
        """Whether one of these was found."""
        return any(found.id in ids for found in self.founds)


def find_subject(
    target: Any,
    *,
    name: str,
    space: dict[str, Any],
    sizes: Sizes,
    args: dict[str, Any] | None,
    call: dict[str, str] | None,
    source: Any = None,
) -> tuple[Subject, list[str]]:
    """The first way to build and to call it that runs and listens to its input: by names, then as its own file does it."""

    def by_names(sizes: Sizes) -> Ways:
        for built in _builds(target, sizes, args, space):
            yield built, partial(subjects, built, name=name, space=space, call=call)

    def as_its_file() -> Ways:
        if args is None and call is None and (inspect.isclass(target) or inspect.isroutine(target)):
            yield from rehearsal.every(target, usage.examples(source, name), name, space)

    longer = replace(sizes, queries=sizes.context, keys=sizes.context + 3)  # code of one fixed length
    problem: CannotRun | None = None
    for ways in (partial(by_names, sizes), as_its_file, partial(by_names, longer)):
        try:
            return _first_that_runs(ways())
        except CannotRun as error:
            problem = problem or error
            if endless(error.error):
                break
    assert problem is not None
    raise problem


Ways = Iterator[tuple[Built, Callable[[], Iterator[Subject]]]]


def _first_that_runs(ways: Ways) -> tuple[Subject, list[str]]:
    errors: list[Failure] = []
    tried: list[str] = []
    count = 0
    blocked: tuple[Subject, list[str]] | None = None
    grouped: BaseException | None = None
    for built, calls in ways:
        for subject in calls():
            count += 1
            if count > TRIES:
                break
            tried.append(f"{built.text} {subject.layout} {subject.dtype}")
            try:
                inputs = subject.draw()
                if not inputs:
                    continue
                first = subject(inputs)
                if subject.framework == "torch" and subject.layout == "bnc" and not np.isfinite(first.output).any():
                    continue
                if first.output.size == 0 or not _listens(subject, inputs, first.output):
                    continue
            except UserError as error:
                errors.append(Failure(error.error, built.text, subject, inputs))
                if endless(error.error):
                    break
                if "kv_heads" in built.chosen and subject.layout == "bnc":
                    grouped = error.error if grouped is None or _depth(error.error) > _depth(grouped) else grouped
                continue
            except (ValueError, TypeError, RuntimeError, IndexError) as error:
                errors.append(Failure(error, built.text, subject))
                continue
            if any(subject.roles.get(p) == "mask" and v is not None for p, v in subject.fixed.items()) and _blocked(
                subject, inputs, first.output
            ):
                blocked = blocked or (subject, tried)  # every query sees the same: this mask hides everything
                continue
            subject.failures = [e.error for e in errors if e.subject.layout == "bnc"]
            subject.grouped = grouped if "kv_heads" not in built.chosen else None
            return subject, tried
        if count > TRIES or (errors and endless(errors[-1].error)):
            break
    if blocked is not None:
        return blocked
    if errors := [e for e in errors if isinstance(e.error, ImportError)] or errors:
        best = errors[-1] if endless(errors[-1].error) else max(errors, key=lambda e: e.reached)  # the first as far
        stage = "endless" if endless(best.error) else "call"
        raise CannotRun(stage, last_line(best.error), [best.built], line_of(best.error), best.error, best.given())
    failure = getattr(builds, "failure", None)
    line = line_of(failure) if failure else None
    stage = "endless" if endless(failure) else "build"
    raise CannotRun(stage, last_line(failure) if failure else "", tried, line, failure)


@dataclass
class Failure:
    """A call that the user's code did not let through, and how far it came."""

    error: BaseException
    built: str
    subject: Subject
    inputs: dict[str, np.ndarray] | None = None

    @property
    def reached(self) -> tuple[int, ...]:
        """The lines of the user's own that were running, outermost first: a later line is farther."""
        return lines_of(self.error)

    def given(self) -> str:
        """What the call was given: "left (5, 7, 24), right None"."""
        said = []
        for parameter, role in self.subject.roles.items():
            if self.inputs is not None and role in self.inputs:
                said.append(f"{parameter} ({', '.join(map(str, self.inputs[role].shape))})")
            elif parameter in self.subject.fixed:
                said.append(f"{parameter} {describe(self.subject.fixed[parameter])}")
        return ", ".join(said)


def _builds(target: Any, sizes: Sizes, args: Any, space: dict[str, Any]) -> Any:
    if inspect.isclass(target):
        builds.failure = None  # type: ignore[attr-defined]
        yield from builds(target, sizes, args, space)
    else:
        yield Built(target, "", {}, sizes)


def _listens(subject: Subject, inputs: dict[str, np.ndarray], output: np.ndarray) -> bool:
    other = subject(
        {r: a if a.dtype.kind == "i" else a * 0.5 + 0.1 for r, a in inputs.items()}
        if subject.layout != "ids"
        else {r: np.roll(a, 1, -1) for r, a in inputs.items()}
    )
    return other.output.shape == output.shape and not np.array_equal(other.output, output, equal_nan=True)


def _blocked(subject: Subject, inputs: dict[str, np.ndarray], output: np.ndarray) -> bool:
    """Whether every query got the same, or got NaN: then the mask that was handed over hides everything."""
    try:
        context = watch(subject, inputs).contexts[0]
    except UserError:
        context = output
    return bool(np.isnan(context).all() or np.ptp(context, axis=-2).max() < 1e-9 or not _meet(subject, inputs, output))


def _meet(subject: Subject, inputs: dict[str, np.ndarray], output: np.ndarray) -> bool:
    """Whether any token's output moves with another token, the first or the last of its text."""
    if subject.layout not in ("bnc", "nbc", "ids"):
        return True
    keys = [r for r in subject.inputs if r in ("k", "v", "memory")]
    n = output.shape[1]
    for place in (0, n - 1):
        moved = (subject(poked(subject, inputs, place, 0, keys or None)).output != output)[0].any(-1)
        if not keys:
            moved[place] = False
        if moved.any():
            return True
    return False


def _depth(error: BaseException) -> int:
    """How far a call got: errors deep in the user's own code are about the code, others about our call."""
    depth = 0
    frame = error.__traceback__
    while frame is not None:
        depth += 1
        frame = frame.tb_next
    return depth


def support(
    subject: Subject, inputs: dict[str, np.ndarray], given: dict[str, Any] | None = None, roles: Any = None
) -> tuple[np.ndarray, bool]:
    """(N, M): whether output i moves with input j; and whether another text's output moves."""
    base = subject(inputs, given).output
    role = (roles or list(inputs))[0]
    axis = -1 if subject.layout == "ids" else -2
    m = inputs[role].shape[axis]
    rows = []
    across = False
    for j in range(m):
        moved = subject(poked(subject, inputs, j, 0, roles), given).output
        change = np.abs(np.nan_to_num(moved) - np.nan_to_num(base))
        scale = np.abs(np.nan_to_num(base)).max() or 1.0
        if subject.layout in ("bhnd", "bnhd") and change.ndim == 4:
            rows.append((change[0] > 1e-12 * scale).any((0, -1)))
        else:
            rows.append((change[0] > 1e-12 * scale).any(-1))
        if len(change) > 1 and (change[1:] > 1e-9 * scale).any():
            across = True
    return np.stack(rows, 1), across
