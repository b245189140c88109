"""The first way to build and to call somebody's code that runs: by names, then as its own file does it."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from ..numbers.watching import poked, watch
from . import rehearsal, usage
from .adapt import subjects
from .building import Built, builds, declared
from .errors import CannotRun, UserError, endless, last_line, line_of, lines_of
from .guess import FIRST, Sizes, current_draw, meaning
from .leavings import Leavings
from .subject import Subject
from .values import copied, describe, settings

TRIES = 400  # ways to build and to call it that are tried before it is said to be none of those we know


def find_subject(
    target: Any,
    *,
    name: str,
    space: dict[str, Any],
    sizes: Sizes,
    args: dict[str, Any] | None,
    call: dict[str, str] | None,
    source: Any = None,
) -> Subject:
    """The first way to build and to call it that runs and listens to its input: by names, then as its own file does it."""
    unbuilt: list[BaseException] = []  # what stopped its constructor

    def by_names(sizes: Sizes) -> Ways:
        made = [Built(target, "", {}, sizes)] if not inspect.isclass(target) else None
        for built in made or builds(target, sizes, args, space, unbuilt):
            yield built, partial(subjects, built, name=name, space=space, call=call)

    def as_its_file() -> Ways:
        if args is None and call is None and (inspect.isclass(target) or inspect.isroutine(target)):
            yield from rehearsal.every(target, usage.examples(source, name), name, space)

    longer = replace(sizes, queries=sizes.context, keys=sizes.context + 3)  # code of one fixed length
    problem: CannotRun | None = None
    for ways in (partial(by_names, sizes), as_its_file, partial(by_names, longer)):
        try:
            return _first_that_runs(ways(), unbuilt)
        except CannotRun as error:
            problem = problem or error
            if endless(error.error):
                break
    assert problem is not None
    raise problem


Ways = Iterator[tuple[Built, Callable[[], Iterator[Subject]]]]


def _first_that_runs(ways: Ways, unbuilt: list[BaseException]) -> Subject:
    errors: list[Failure] = []
    tried: list[str] = []
    blocked: Subject | None = None
    grouped: BaseException | None = None
    each = (
        (built, before, subject) for built, calls in ways for before in [Leavings(built.object)] for subject in calls()
    )
    for built, before, subject in itertools.islice(each, TRIES):
        tried.append(f"{built.text} {subject.layout} {subject.dtype}")
        try:
            inputs = subject.draw()
            if not inputs:
                continue
            before.restore(subject.owner)
            first = subject(inputs)
            if _goes_on(subject, before):
                subject.left = before
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
        masked = any(subject.roles.get(p) == "mask" and v is not None for p, v in subject.fixed.items())
        if masked and _blocked(subject, inputs, first.output):
            blocked = blocked or subject  # every query sees the same: this mask hides everything
            continue
        subject.failures = [e.error for e in errors if e.subject.layout == "bnc"]
        subject.grouped = grouped if "kv_heads" not in built.chosen else None
        return subject
    if blocked is not None:
        return blocked
    if errors := [e for e in errors if isinstance(e.error, ImportError)] or errors:
        best = errors[-1] if endless(errors[-1].error) else max(errors, key=lambda e: e.reached)  # the first as far
        stage = "endless" if endless(best.error) else "call"
        raise CannotRun(stage, last_line(best.error), [best.built], line_of(best.error), best.error, best.given())
    if not unbuilt:
        raise CannotRun("build", "", tried)
    stage = "endless" if endless(unbuilt[0]) else "build"
    raise CannotRun(stage, last_line(unbuilt[0]), tried, line_of(unbuilt[0]), unbuilt[0])


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


def _goes_on(subject: Subject, before: Leavings) -> bool:
    """Whether, after a call, a token is answered otherwise than at first: by what that call left behind, not by chance."""
    if subject.owner is None or not before.changed(subject.owner):
        return False
    token = subject.draw(n=1)
    after: np.ndarray | None
    try:
        after = subject(token).output
    except (UserError, ValueError, TypeError, RuntimeError, IndexError):
        after = None
    answers = []
    for _ in range(2):
        before.restore(subject.owner)
        try:
            answers.append(subject(token).output)
        except (UserError, ValueError, TypeError, RuntimeError, IndexError):
            return False
    before.restore(subject.owner)
    equal = np.array_equal(answers[0], answers[1], equal_nan=True)
    return equal and (after is None or not np.array_equal(after, answers[0], equal_nan=True))


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


FREE = (3, 5, 7, 2, 9, 11, 13)  # lengths for an object that came with sizes of its own


def sizes_for(target: Any, heads: int | None, args: dict[str, Any] | None) -> Sizes:
    """Ours, unless an object came with its own: then lengths and a batch that none of its sizes equals."""
    given = {k: v for k, v in (args or {}).items() if isinstance(v, int)}
    taken = set(given.values())
    heads = heads or next((v for k, v in given.items() if meaning(k) == "heads"), None)
    width = next((v for k, v in given.items() if meaning(k) == "width"), None)
    if isinstance(target, nn.Module):
        taken |= {size for p in target.parameters() for size in p.shape}
        heads = heads or declared(target).get("heads")
        linear = next((m for m in target.modules() if isinstance(m, nn.Linear)), None)
        width = width or (linear.in_features if heads and linear is not None else None)
    plain = current_draw().sizes
    if not taken and heads is None:
        return plain
    if heads:
        taken |= {heads, *([width // heads] if width else [])}
    free = FREE if current_draw() == FIRST else (*FREE[3:], *FREE[:3])
    batch, *others = [n for n in free if n not in taken]
    queries, keys = sorted([n for n in others if n >= 5][:2])  # of two tokens every triangle is off by one of another
    head = width // heads if heads and width and width % heads == 0 else plain.head
    window = next((v for k, v in (args or {}).items() if meaning(k) == "window" and isinstance(v, tuple)), None)
    if window is not None:  # a window of an image: as many tokens as it has places
        queries = int(np.prod(window))
    return Sizes(batch=batch, queries=queries, keys=keys, heads=heads or plain.heads, head=head)


def fresh(subject: Subject) -> Any:
    """One that was never called."""
    try:
        with settings(subject.dtype):
            made = subject.make() if subject.make is not None else None
        if isinstance(made, nn.Module) and any(isinstance(p, nn.UninitializedParameter) for p in made.parameters()):
            return None  # its layers learn their width from the first call
        return made.eval() if isinstance(made, nn.Module) else made
    except Exception:
        return None


def handed_over(target: Any) -> Any:
    """An object that someone handed over is not worked on: a copy is."""
    if inspect.isclass(target) or inspect.isroutine(target):
        return target
    try:
        return copied(target)
    except Exception:
        return target
