"""Modules that mix their tokens through a state: what they do to it is read off their output, and what they keep is seen."""

import contextlib
import inspect
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from ...i18n import Message, _
from ..case import Case
from ..mistakes.states import ADDED, AFTER, COLUMN, LITTLE, ROW
from ..numbers.guesses import guesses, head_counts
from ..numbers.states import Array, recovered, steady, table, told
from ..numbers.watching import Watched, mixed_of, watch
from ..report import Report
from ..subject.errors import Spent, UserError
from ..subject.leavings import Leavings
from ..subject.subject import Subject
from ..subject.values import to_numpy
from .states import MASKED, MIXER, TOLERANCE, UNKNOWN, attends, mistakes, named_mistake, speaks

N = 5  # tokens: no more than a head has channels


def examine(case: Case, name: str) -> Case | Report | None:
    """A module of one input that mixes its tokens through a state; None where it is none."""
    subject = case.subject
    if subject.owner is None or attends(case.says):
        return None
    if subject.layout in ("bnc", "nc") and subject.inputs == ["x"]:
        with contextlib.suppress(Spent):  # too large: the other looks say what that leaves out
            for look in (_kept_by, _read_off):
                if (judged := look(case)) is not None:
                    return judged
    return Report(name, "unknown", problem=Message(UNKNOWN, name=name)) if speaks(name, case.says) else None


def _chunk_sizes(owner: Any) -> list[str]:
    """Its attributes that say how long a chunk is."""
    return [p for p, v in vars(owner).items() if type(v) is int and v > 2 and re.search("chunk|block|segment", p)]


def _kept_by(case: Case) -> Case | None:
    """A module that goes on where the last call stopped, without a way to begin again."""
    subject = case.subject
    if subject.left is None or not speaks(subject.name, case.says):
        return None
    inputs = subject.draw(5)
    try:
        first, second = subject(inputs).output, replace(subject, carrying=True)(inputs).output
    except UserError:
        return None
    change = float(np.abs(second - first).max() / (np.abs(first).max() or 1.0))
    own = [method for method in dir(type(subject.owner)) if not hasattr(nn.Module, method)]
    if change < TOLERANCE or any(re.search(r"reset|clear|begin|start|init_(state|hidden|cache)", one) for one in own):
        return None
    case.kind = "state"
    case.checked.append("state between calls")
    case.add("L2", "calls", change=change)
    return case


def _read_off(case: Case) -> Case | None:
    """The decays and shares of a module's layer, read off its output."""
    sizes = _chunk_sizes(case.subject.owner)
    for chunk in (2, 0) if sizes else (0,):
        with _in_chunks(case.subject, sizes, chunk) as subject:
            inputs = subject.draw(7, n=N)
            try:
                seen = watch(subject, inputs)
            except UserError:
                continue
        for inner in (False, True):
            contexts = mixed_of(subject, seen.result, inputs) if inner else seen.contexts
            for three in _threes(subject, seen, inputs, contexts):
                judged = _judged_module(case, *three, chunk)
                if judged is None:
                    continue
                if inner:
                    judged.miss("after", _("what is done to what the heads give (a norm, a gate)"))
                if sizes and not chunk:
                    judged.miss("chunks", _("the borders of chunks: it runs with one chunk for the whole text only"))
                return judged
    return None


@contextlib.contextmanager
def _in_chunks(subject: Subject, sizes: list[str], chunk: int) -> Iterator[Subject]:
    """The module with chunks of that many tokens, if it has any; afterwards it has its own again."""
    owner, own = subject.owner, {one: getattr(subject.owner, one) for one in sizes}
    if subject.left is not None:
        subject.left.restore(owner)
    for one in sizes if chunk else ():
        setattr(owner, one, chunk)
    try:
        yield replace(subject, gain=1.0, left=None if subject.left is None else Leavings(owner))
    finally:
        for one, size in own.items():
            setattr(owner, one, size)


def _threes(
    subject: Subject, seen: Watched, inputs: dict[str, Array], contexts: list[Array]
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Who may be q, k and v, and what came of them, each (B, H, N, …)."""
    wide = max((p.features.shape[-1] for p in seen.projected), default=0)
    broad = replace(seen, projected=[p for p in seen.projected if 3 * p.features.shape[-1] >= wide])  # no gates
    options = [*guesses(subject, seen, inputs)[:24], *(guesses(subject, broad, inputs)[:24] if broad.projected else [])]
    met = [*_met(seen, len(contexts[0]))] if contexts else []
    for guess, context, h in itertools.product(options, contexts, head_counts(subject, seen)):
        four = guess.q, guess.k, guess.v, context
        if any(x.ndim != 3 or x.shape[-1] % h or x.shape[1] != N for x in four):
            continue
        if context.shape[-1] != guess.v.shape[-1]:
            continue
        q, k, v, y = (x.reshape(*x.shape[:2], h, -1).swapaxes(1, 2) for x in four)
        for left, right in [(q, k), *met]:
            if left.shape == right.shape and left.shape[:3] == v.shape[:3]:
                yield left, right, v, y


def _met(seen: Watched, batch: int) -> Iterator[tuple[Array, Array]]:
    """q and k where they were multiplied, after whatever was done to them: positions, a norm."""
    for met in getattr(seen.result.seen, "scored", [])[:4]:
        q, k = to_numpy(met.left), to_numpy(met.right)
        if q.ndim == k.ndim and q.ndim in (3, 4) and q.shape[0] == batch:
            q, k = (x if x.ndim == 4 else x[:, None] for x in (q, k))
            if q.shape[2] == N and k.shape == (*q.shape[:2], q.shape[3], N):
                yield q, k.swapaxes(-1, -2)
            elif q.shape[2] == N and k.shape == q.shape:
                yield q, k


def _other_forms(owner: Any) -> list[str]:
    """Its methods that compute the same in another way, by their names."""
    own = [name for base in type(owner).__mro__ if base.__module__.split(".")[0] != "torch" for name in vars(base)]
    form = r"(?!_).*(recurr|chunk|parallel|step|stream|decod).*|forward_.+|infer(ence)?"
    return [name for name in own if re.fullmatch(form, name, re.I) and inspect.isfunction(getattr(type(owner), name))]


def _faded(beta: Array, gamma: Array) -> str:
    """What is wrong where what a token writes has faded already, or is larger than it should be, by just one decay."""
    for power, when in ((1, AFTER), (-1, LITTLE)):
        if np.abs(beta / gamma**power - 1).max() < 1e-6:
            return when
    return ""


def _judged_module(case: Case, q: Array, k: Array, v: Array, y: Array, chunk: int) -> Case | None:
    """What its numbers say; None where they are no such layer's, or may be attention's without its softmax."""
    words = f"{case.subject.name} {case.says.docstring}"
    for m in recovered(q, k, v, y):
        gamma, beta = m.gamma[..., 1:], m.beta
        by_place = float(np.ptp(beta, 0).max()) < 1e-6 * np.abs(beta).max()  # whatever the text
        even = float(np.ptp(beta, -1).max()) < 1e-6 * np.abs(beta).max()
        never = bool(np.abs(gamma - 1).max() < 1e-6)
        if never and even and m.rule == "add" and not MIXER.search(words):
            return None
        case.kind = "state"
        case.checked.append("recurrence")
        grows = gamma.max() > 1 + 1e-6 and f"={gamma.max():.9g}" not in case.subject.built  # else it is our own number
        fixed = float(np.ptp(gamma, 0).max()) < 1e-6 * gamma.max()  # whatever the text: no normaliser of a row
        if grows and (fixed or gamma.min() > 1):
            case.add("L1", "grows", factor=float(gamma.max()))
        elif grows:
            case.miss("decay", _("the decay: each row is multiplied by a number of its own, which hides it"))
        elif by_place and not even:
            first, last = float(beta[0, 0, 0]), float(beta[0, 0, -1])
            case.add("L1", "place", first=first, last=last, axis=Message(COLUMN if never else ROW))
        elif even and not never and (when := _faded(beta[..., :1], gamma)):
            right = table(replace(m, beta=np.ones_like(beta)))
            case.add("L4", **told(table(m), right, when=Message(when), error=1e-9))
        elif m.rule == "add" and not by_place and re.search("delta", words, re.I):
            case.add("L5", **told(table(m), table(replace(m, rule="delta")), what=Message(ADDED), error=1e-9))
        for mask in case.subject.masks:
            case.miss(f"mask {mask}", MASKED, parameter=mask)
        for other in _other_forms(case.subject.owner):
            case.miss(f"method {other}", _("its other form {name}: a module is looked at by its forward"), name=other)
        return case
    if (likely := steady(q, k, v, y)) is not None:
        for mistake in mistakes():
            if (said := named_mistake(mistake, replace(likely, chunk=chunk), y)) is not None:
                case.kind = "state"
                case.checked.append("recurrence")
                case.add(mistake.id, said.pop("how", ""), **said)
                return case
    return None
