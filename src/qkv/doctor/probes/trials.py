"""One mask handed over, and what came: in which tensor, against which numbers, and whether it hides what it should."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..case import Case
from ..mistakes.mistake import triangle
from ..numbers.guesses import Guess, guesses
from ..numbers.match import Matcher
from ..numbers.oracle import AttentionForm, Piece
from ..numbers.watching import Watched, contexts_of, poked, watch
from ..subject.errors import UserError
from ..subject.formats import Format

Array = np.ndarray

MEMORY = r"src|source|mem|enc|cross|context"


@dataclass
class View:
    """Inputs of certain lengths, looked into once."""

    inputs: dict[str, Array]
    n: int
    m: int
    watched: Watched | None
    guess: Guess | None


@dataclass
class Trial:
    """One mask handed over, and what came."""

    format: Format
    keep: Array
    contexts: list[Array]
    output: Array


def view(case: Case, n: int, m: int) -> View | None:
    """The subject at these lengths, with the same guess of who is q, k, v."""
    if (n, m) not in case.views:
        case.views[n, m] = _view(case, n, m)
    return case.views[n, m]


def _view(case: Case, n: int, m: int) -> View | None:
    subject = case.subject
    if case.lengths == (n, m):
        return View(case.inputs, n, m, case.watched, case.match.guess if case.match else None)
    try:
        inputs = subject.draw(n=n, m=m)
        watched = watch(subject, inputs)
    except UserError:
        return None
    return View(inputs, n, m, watched, same_guess(case, guesses(subject, watched, inputs)))


def same_guess(case: Case, again: list[Guess]) -> Guess | None:
    """Of guesses at other lengths the one that matched."""
    place = next((i for i, g in enumerate(case.guesses) if case.match and g is case.match.guess), None)
    return again[place] if place is not None and place < len(again) else None


def patterns(n: int, m: int, batch: int) -> dict[str, Array]:
    """Keep-masks (B, N, M) worth trying: texts of different lengths, padded right and left, the triangle, any."""
    lengths = [max(1, m - (2 * b + 2) % m) for b in range(batch)]  # the first text is padded too
    columns = np.arange(m)
    right = np.stack([columns < length for length in lengths])
    random = np.random.default_rng(3).random((batch, n, m)) < 0.6
    random |= np.arange(n)[:, None] % m == columns[None]
    return {
        "right": np.repeat(right[:, None], n, 1),
        "left": np.repeat(right[:, None, ::-1], n, 1),
        "causal": np.repeat(triangle(n, m, "causal")[None], batch, 0),
        "random": random,
    }


def spared(inner: Array | None, keep: Array) -> Array:
    """Rows that a triangle of the code's own and the mask together leave empty stay whole: that is another question."""
    if inner is None:
        return keep
    both = inner[None] & keep
    return np.where(both.any(-1, keepdims=True), keep, True)


def hidden(case: Case) -> Array | None:
    """(N, N): what the code itself allows, where that isn't everything."""
    seen = case.support
    if seen is None or seen.shape[0] != seen.shape[1] or seen.all() or not seen.any(-1).all():
        return None
    return seen


def batch_of(looked: View) -> int:
    return len(next(iter(looked.inputs.values())))


def crossing(case: Case) -> bool:
    """Whether the attention that was watched has its keys from the memory."""
    return (
        case.match is None
        or "x" not in case.subject.inputs
        or case.match.guess.k.shape[-2] == case.lengths[1] != case.lengths[0]
    )


def trial_of(case: Case, parameter: str, looked: View, format_: Format, keep: Array) -> Trial:
    result = case.subject(looked.inputs, {parameter: tensor_for(case, format_, keep)}, watch=True)
    contexts = contexts_of(case.subject, result, looked.inputs, looked.watched) if looked.watched else [result.output]
    return Trial(format_, keep, contexts, result.output)


def tensor_for(case: Case, format_: Format, keep: Array) -> Any:
    subject = case.subject
    return format_.encode(keep, case.heads, subject.framework, subject.dtype, subject.layout == "nc")


def form_of(case: Case, keep: Array, given: str = "keep", how: str = "fill") -> AttentionForm:
    assert case.match is not None
    form = case.match.variant.form
    own = Piece(keep[:1, None] if case.subject.layout == "nc" else keep[:, None], how, given=given)
    n, m = keep.shape[-2:]
    inner = tuple(p for p in form.pieces if p.keep.shape[-2:] in ((n, m), (1, m)))
    return replace(form, pieces=(*inner, own))


def error_of(case: Case, looked: View, form: AttentionForm, contexts: list[Array]) -> float:
    assert looked.watched is not None and looked.guess is not None
    return Matcher(case.subject, replace(looked.watched, contexts=contexts)).error(looked.guess, form)[0]


def tolerance_of(case: Case) -> float:
    assert case.watched is not None and case.match is not None
    return max(Matcher(case.subject, case.watched).tolerance, case.match.error * 10)


def is_right(case: Case, parameter: str, trial: Trial, looked: View, numbers: bool, memory: bool) -> bool:
    if numbers:
        return error_of(case, looked, form_of(case, trial.keep), trial.contexts) < tolerance_of(case)
    return hides(case, parameter, trial, looked, memory)


def hides(case: Case, parameter: str, trial: Trial, looked: View, memory: bool) -> bool:
    """Changing what is masked changes no other row; what is kept is seen."""
    subject, keep, output = case.subject, trial.keep, trial.output
    if not np.isfinite(output).all():
        return False
    roles = (
        ["memory"]
        if memory and "memory" in subject.inputs
        else [r for r in subject.inputs if r in ("k", "v", "memory")] or subject.inputs[:1]
    )
    own = roles == subject.inputs[:1] and "k" not in roles
    given = {parameter: tensor_for(case, trial.format, keep)}
    size = np.abs(output).max() or 1.0
    item, place = masked_place(keep)
    moved = subject(poked(subject, looked.inputs, place, item, roles), given).output
    change = rows_of(np.abs(moved - output)[item], subject.layout)
    blind = ~keep[item][:, place]
    if own and place < len(blind):
        blind[place] = False
    if not blind.any() or change[blind].max() > 1e-9 * size:
        return False
    seen = int(keep[item].sum(0).argmax())
    other = subject(poked(subject, looked.inputs, seen, item, roles), given).output
    rows = rows_of(np.abs(other - output)[item], subject.layout)
    if own and seen < len(rows):
        rows[seen] = 0
    return bool(rows.max() > 1e-9 * size)


def masked_place(keep: Array) -> tuple[int, int]:
    """An item and a key in it that nobody may see, else that as few rows as possible may."""
    for item in range(len(keep) - 1, -1, -1):
        gone = np.flatnonzero(~keep[item].any(0))
        if len(gone):
            return item, int(gone[0])
    fewest = int(keep.sum(1).argmin())
    return fewest // keep.shape[-1], fewest % keep.shape[-1]


def rows_of(change: Array, layout: str) -> Array:
    """(N,): the largest change of each query's output."""
    return change.max((0, -1)) if change.ndim == 3 else change.max(-1)
