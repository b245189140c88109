"""Number for number: the user's context against attention computed from the user's own projections.

The projections are watched, not named: every assignment of what was projected to q, k and v is tried, and only
a right one (with a right or a known wrong form) reproduces the context to the last digits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..mistakes import CATALOGUE
from ..mistakes.mistake import At
from ..subject.subject import Subject
from .guesses import Guess, head_counts
from .oracle import TOLERANCE, AttentionForm, Looks, Piece, attention, largest, relative_error
from .variants import Variant, mixed, pairs, singles
from .watching import Watched

Array = np.ndarray


@dataclass(frozen=True)
class Match:
    """A form that gives the user's numbers."""

    variant: Variant
    guess: Guess
    base: AttentionForm
    error: float
    at: At
    context: int = 0

    @property
    def right(self) -> bool:
        """Without a mistake."""
        return not self.variant.ids


def bases(
    subject: Subject, guess: Guess, watched: Watched, pieces: tuple[Piece, ...]
) -> Iterator[tuple[AttentionForm, At]]:
    """Right forms that this guess may have."""
    b, n = guess.q.shape[0], guess.q.shape[-2]
    m = guess.k.shape[-2]
    model = subject.width or guess.q.shape[-1]
    extra = tuple(dict.fromkeys([subject.sizes.context, *subject.numbers]))
    if subject.layout in ("bhnd", "bnhd") and guess.label.startswith("inputs"):
        h, d = guess.q.shape[1], guess.q.shape[-1]
        at = At(b, n, m, h * d, h, d, h, extra=extra)
        for merge in ("given", "hd"):
            form = AttentionForm(heads=h, kv_heads=guess.k.shape[1], split="given", merge=merge, pieces=pieces)
            yield form, at
            if n == m and guess.label == "inputs":
                yield from ((placed, at) for placed in _placed(form, d))
        return
    total = guess.q.shape[-1]
    kv_total = guess.k.shape[-1]
    for h in guess.heads or head_counts(subject, watched):
        if total % h:
            continue
        d = total // h
        if kv_total % d or guess.v.shape[-1] % (kv_total // d) or h % (kv_total // d):
            continue
        at = At(
            b, n, m, model if model != d else total, h, d, kv_total // d, subject.chosen.get("heads", 0) or 0, extra
        )
        form = AttentionForm(heads=h, kv_heads=kv_total // d, pieces=pieces)
        yield form, at
        if h > 1:
            for split, merge in (("dh", "dh"), ("dh", "hd"), ("hd", "dh")):
                yield replace(form, split=split, merge=merge), at
        yield replace(form, activation="relu"), at
        yield from ((placed, at) for placed in _placed(form, d, watched.turned))


def _placed(form: AttentionForm, d: int, turns: bool = True) -> Iterator[AttentionForm]:
    """The form with positions in it: rotary in either pairing, on whole heads or on the first channels; slopes."""
    if form.heads > 1:
        yield replace(form, slopes="right")
    if not turns:
        return
    parts = dict.fromkeys(r for r in (d // 4, d // 3, d // 2, 2 * d // 3, 3 * d // 4) if r >= 2 and r % 2 == 0)
    for turned in (0, *parts) if d % 2 == 0 else tuple(parts):
        yield replace(form, rotary="half", turned=turned)
        yield replace(form, rotary="pairs", turned=turned)


class Matcher:
    """Compares contexts with forms; the references are kept, since thousands are tried."""

    def __init__(self, subject: Subject, watched: Watched) -> None:
        self.subject, self.watched = subject, watched
        self.tolerance = TOLERANCE.get(subject.dtype, 3e-4)
        self.contexts = list(watched.contexts)
        self.known: dict[
            int, tuple[Guess, dict[Any, Looks]]
        ] = {}  # by guess, which is held so that its number stays its own
        self.sizes = [largest(context) for context in self.contexts]

    def mine(self, guess: Guess, form: AttentionForm) -> Array | None:
        """The context as this form has it; None where it doesn't go together."""
        known = self.known.setdefault(id(guess), (guess, {}))[1]
        try:
            with np.errstate(all="ignore"):
                return attention(guess.q, guess.k, guess.v, form, known)
        except (ValueError, IndexError):
            return None

    def fits(self, guess: Guess, form: AttentionForm) -> tuple[float, int] | None:
        """Error and context of a form that gives the user's numbers; most are told to be others by their last one."""
        mine = self.mine(guess, form)
        if mine is None:
            return None
        for theirs, size in zip(self.contexts, self.sizes, strict=True):
            if mine.shape == theirs.shape and not abs(mine.flat[-1] - theirs.flat[-1]) > self.tolerance * size:
                error, place = self._nearest(guess, mine)
                return (error, place) if error < self.tolerance else None
        return None

    def error(self, guess: Guess, form: AttentionForm) -> tuple[float, int]:
        """The largest difference, relative to the largest number, and with which context."""
        mine = self.mine(guess, form)
        return (np.inf, 0) if mine is None else self._nearest(guess, mine)

    def _nearest(self, guess: Guess, mine: Array) -> tuple[float, int]:
        best, place = np.inf, 0
        for index, (theirs, size) in enumerate(zip(self.contexts, self.sizes, strict=True)):
            if mine.shape == theirs.shape:
                error = relative_error(mine, theirs, size)
                if error < best and not self._passed_through(guess, theirs, size):
                    best, place = error, index
        return best, place

    def _passed_through(self, guess: Guess, context: Array, size: float) -> bool:
        """Whether a context is the values as they were: vectors that see themselves alone, which any projection gives."""
        return context.shape == guess.v.shape and relative_error(guess.v, context, size) < 1e-3

    def best(
        self,
        options: list[Guess],
        pieces: tuple[Piece, ...],
        *,
        faults: int = 2,
        also: tuple[tuple[Piece, ...], ...] = (),
    ) -> Match | None:
        """The right form that fits, else the wrong one, else the doubly wrong one."""
        trials = [
            (g, f, at) for g in options for p in (pieces, *also) for f, at in bases(self.subject, g, self.watched, p)
        ]
        for guess, form, at in trials:
            if (fit := self.fits(guess, form)) is not None:
                return Match(Variant(form), guess, form, fit[0], at, fit[1])
        plain = [(g, f, at) for g, f, at in trials if (f.split == "hd" and f.merge == "hd") or f.split == "given"]
        likely = [id(g) for g in options[:2]]

        def order(trial: tuple[Guess, AttentionForm, At]) -> int:
            """Plain forms first; with positions or an activation in them, those of the likeliest guesses."""
            guess, form, _ = trial
            return bool(form.rotary or form.slopes or form.activation) * (1 if id(guess) in likely else 2)

        if faults >= 1:
            plain.sort(key=order)
            whole = [t for t in plain if not t[1].turned]
            if hits := self._search(whole[:300], singles):
                return min(hits, key=lambda m: _severity(m))
            part = [t for t in plain if t[1].turned and t[1].pieces is pieces]
            if hits := self._search(part[:240], mixed):
                return min(hits, key=lambda m: _severity(m))
        if faults >= 2:
            hits = self._search(plain[:4], pairs)
            if hits:
                return min(hits, key=lambda m: _severity(m))
        return None

    def _search(self, trials: list[tuple[Guess, AttentionForm, At]], wrong: Any) -> list[Match]:
        for guess, form, at in trials:
            hits = []
            for variant in wrong(form, at):
                if (fit := self.fits(guess, variant.form)) is not None:
                    hits.append(Match(variant, guess, form, fit[0], at, fit[1]))
            if hits:
                return hits
        return []

    def scale(self, guess: Guess, form: AttentionForm) -> tuple[float, float] | None:
        """The number that the scores are multiplied by, where everything else is right: found by searching."""
        steps = np.geomspace(1e-3, 30, 60)
        errors = [self.error(guess, replace(form, scale=float(s)))[0] for s in steps]
        if not np.isfinite(errors).any():
            return None
        place = int(np.nanargmin(errors))
        low, high = steps[max(place - 1, 0)], steps[min(place + 1, len(steps) - 1)]
        ratio = (5**0.5 - 1) / 2
        for _ in range(80):
            a, b = high - ratio * (high - low), low + ratio * (high - low)
            if (
                self.error(guess, replace(form, scale=float(a)))[0]
                < self.error(guess, replace(form, scale=float(b)))[0]
            ):
                high = b
            else:
                low = a
        found = float((low + high) / 2)
        error = self.error(guess, replace(form, scale=found))[0]
        return (found, error) if error < max(self.tolerance, 1e-6) else None


def _severity(match: Match) -> tuple[int, float]:
    return CATALOGUE[match.variant.ids[0]].explains, match.error
