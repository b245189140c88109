"""Number for number: the user's context against attention computed from the user's own projections.

The projections are watched, not named: every assignment of what was projected to q, k and v is tried, and only
a right one (with a right or a known wrong form) reproduces the context to the last digits.
"""

import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..mistakes import CATALOGUE
from ..mistakes.mistake import At
from ..subject.capture import as_tokens, named
from ..subject.subject import Result, Subject, to_numpy
from .oracle import Form, Piece, attention
from .variants import Variant, mixed, pairs, singles

Array = np.ndarray


@dataclass(frozen=True)
class Projected:
    """Features of tokens that a weight made: (B, N, features)."""

    features: Array
    name: str = ""
    weight: tuple[int, ...] = ()
    source: str = ""  # which input it came from


@dataclass(frozen=True)
class Guess:
    """Who might be q, k and v."""

    q: Array
    k: Array
    v: Array
    label: str = ""
    names: tuple[str, str, str] = ("", "", "")
    heads: tuple[int, ...] = ()

    @classmethod
    def of(cls, three: Iterable[Array], label: str, names: Any = ("", "", ""), heads: tuple[int, ...] = ()) -> "Guess":
        """From q, k and v in a row."""
        q, k, v = three
        return cls(q, k, v, label, names, heads)


@dataclass
class Watched:
    """One run looked into."""

    projected: list[Projected]
    contexts: list[Array]
    output: Array
    result: Result
    after: list[str] = field(default_factory=list)  # names of the weights that came after the mixing
    place: int = -1  # of the product that took the context

    @functools.cached_property
    def turned(self) -> bool:
        """Whether q may have been turned by its positions: it meets k as other numbers than a weight made, up to a scale."""
        seen = self.result.seen
        met = [one["query"] for one in getattr(seen, "kernels", [])] or [one[0] for one in getattr(seen, "scored", [])]
        if not met or not self.projected:
            return True
        made = np.sort(np.concatenate([p.features.ravel() for p in self.projected]))
        some = to_numpy(met[0]).ravel()
        some = some[:: max(1, len(some) // 64)]
        d = met[0].shape[-1]
        for scale in (1.0, d**-0.5, d**-0.25):
            near = np.searchsorted(made, some / scale).clip(1, len(made) - 1)
            gap = np.minimum(np.abs(made[near] - some / scale), np.abs(made[near - 1] - some / scale))
            if gap.max() < 1e-9 * (np.abs(made).max() or 1):
                return False
        return True


@dataclass(frozen=True)
class Match:
    """A form that gives the user's numbers."""

    variant: Variant
    guess: Guess
    base: Form
    error: float
    at: At
    context: int = 0

    @property
    def right(self) -> bool:
        """Without a mistake."""
        return not self.variant.ids


def poked(
    subject: Subject, inputs: dict[str, Array], place: int = 0, item: int = 0, roles: Any = None
) -> dict[str, Array]:
    """The same inputs with one token of one text changed, in a random direction."""
    random = np.random.default_rng(99 + place)
    other = {}
    for r, array in inputs.items():
        array = array.copy()
        length = array.shape[1] if array.ndim == 2 else array.shape[-2]
        if (roles is None or r in roles) and place < length:
            if array.dtype.kind == "i":
                array[item, place] = 2 + (array[item, place] - 2 + 1) % (subject.sizes.vocabulary - 2)
            else:
                array[item, ..., place, :] += random.standard_normal(array.shape[-1])
        other[r] = array
    return other


def watch(subject: Subject, inputs: dict[str, Array], given: dict[str, Any] | None = None) -> Watched:
    """Run it twice, with one token changed in between: what moved with that token alone was projected from it."""
    first = subject(inputs, given, watch=True)
    if first.seen is None:
        return _unwatched(subject, inputs, first)
    second = subject(poked(subject, inputs), given, watch=True)
    batch = len(next(iter(inputs.values()))) if subject.layout != "nc" else 1
    lengths = _lengths(subject, inputs)
    projected: list[Projected] = []
    contexts: list[Array] = []
    after: list[str] = []
    place = -1
    for index, (one, two) in enumerate(zip(first.seen.products, second.seen.products, strict=False)):
        found = None
        for length in lengths:
            a, b = as_tokens(one.given, batch, length), as_tokens(two.given, batch, length)
            if a is not None and b is not None and a.shape == b.shape:
                found = a, b, length
                break
        if found is None:
            continue
        a, b, length = found
        moved = (np.abs(a - b) > 0).any(-1)
        others = moved.copy()
        others[0, 0] = False
        weight = named(subject.owner, one.weight)
        if moved[0, 0] and not others.any() and not contexts:
            projected.append(Projected(a, weight, tuple(one.weight.shape), ""))
        elif others.any() or (contexts and moved.any()):
            if not contexts:
                taken = as_tokens(one.taken, batch, lengths[0])
                if taken is not None:
                    contexts.append(taken)
                    place = index
            after.append(weight)
    output = first.output if subject.layout != "nc" else first.output[:1]
    if not contexts:
        contexts = _last(subject, first, inputs)
    return Watched(projected, contexts, output, first, after, place)


def _last(subject: Subject, result: Result, inputs: dict[str, Array]) -> list[Array]:
    """Where no weight comes after the mixing: the output, as it is and without what was added to it."""
    output = result.output if subject.layout != "nc" else result.output[:1]
    added = inputs.get("x", inputs.get("q")) if subject.layout in ("bnc", "nbc", "bchw", "bhwc") else None
    if subject.layout == "ids" and result.seen is not None and result.seen.products:
        added = as_tokens(result.seen.products[0].taken, len(output), _lengths(subject, inputs)[0])
    return [output, output - added] if added is not None and added.shape == output.shape else [output]


def mixed_of(subject: Subject, result: Result, inputs: dict[str, Array]) -> list[Array]:
    """What the weights gave of the values, heads side by side: for code that does more to it before it hands it back."""
    seen = result.seen
    if seen is None or not (getattr(seen, "kernels", None) or getattr(seen, "scored", None)):
        return []
    batch, n = len(result.output) if subject.layout != "nc" else 1, _lengths(subject, inputs)[0]
    last = to_numpy(seen.kernels[-1]["out"] if seen.kernels else seen.scored[-1][2])
    if last.ndim == 4 and last.shape[0] == batch and last.shape[2] == n:
        return [last.transpose(0, 2, 1, 3).reshape(batch, n, -1)]
    if last.ndim == 3 and last.shape[0] % batch == 0 and last.shape[1] == n:  # texts outermost, or heads
        outer, inner = last.reshape(batch, -1, n, last.shape[-1]), last.reshape(-1, batch, n, last.shape[-1])
        both = outer.transpose(0, 2, 1, 3), inner.transpose(1, 2, 0, 3)
        return [one.reshape(batch, n, -1) for one in both]
    return []


def contexts_of(subject: Subject, result: Result, inputs: dict[str, Array], watched: Watched) -> list[Array]:
    """The contexts of another run of the same code: found where they were found the first time."""
    if result.seen is not None and 0 <= watched.place < len(result.seen.products):
        batch = len(next(iter(inputs.values()))) if subject.layout != "nc" else 1
        taken = as_tokens(result.seen.products[watched.place].taken, batch, _lengths(subject, inputs)[0])
        if taken is not None:
            return [taken]
    return _last(subject, result, inputs)


def _lengths(subject: Subject, inputs: dict[str, Array]) -> list[int]:
    axis = 2 if subject.layout in ("bhnd", "bnhd") else 1
    first = sorted(inputs, key=lambda r: r not in ("x", "q"))
    return list(dict.fromkeys(inputs[r].shape[axis] for r in first))


def _unwatched(subject: Subject, inputs: dict[str, Array], first: Result) -> Watched:
    """NumPy can't be watched: the object's own matrices by their names, the output without its projection."""
    output = first.output if subject.layout != "nc" else first.output[:1]
    return Watched([], [output], output, first)


def guesses(subject: Subject, watched: Watched, inputs: dict[str, Array]) -> list[Guess]:
    """Assignments of what was projected to q, k, v; the likeliest by name and order first."""
    found: list[Guess] = []
    item = slice(0, 1) if subject.layout == "nc" else slice(None)
    given = {r: a[item] for r, a in inputs.items()}
    if subject.layout != "ids" and not watched.projected:
        q = given.get("q", given.get("x"))
        if q is not None:
            k = given.get("k", given.get("memory", q))
            v = given.get("v", k)
            found.append(Guess(q, k, v, "inputs"))
            if {"q", "k", "v"} <= given.keys():
                for order in itertools.permutations("qkv"):
                    if order != ("q", "k", "v"):
                        found.append(Guess.of((given[r] for r in order), f"inputs {''.join(order)}"))
        return found
    heads = head_counts(subject, watched)
    parts = watched.projected
    x = given.get("x", given.get("q"))
    if len(parts) == 3 or len(parts) > 3:
        found += _threes(parts)
        found += _per_head(parts)
    if len(parts) in (1, 4):
        found += _fused(parts[0], heads)
    if len(parts) == 2:
        found += _two(parts, heads)
    if len(parts) < 3 and x is not None and x.ndim == 3 and subject.layout != "ids":  # projections left out
        pool = [(p.features, p.name) for p in parts] + [(x, "")]
        if "k" in given:
            pool += [(given["k"], ""), (given["v"], "")] if "v" in given else [(given["k"], "")]
        for (a, na), (b, nb), (c, nc) in itertools.islice(itertools.product(pool, repeat=3), 125):
            if a.shape[-1] == b.shape[-1]:
                found.append(Guess(a, b, c, "partly unprojected", (na, nb, nc)))
    return found


def head_counts(subject: Subject, watched: Watched | None = None) -> list[int]:
    """How many heads there may be: what was asked for, what the object says, else every divisor."""
    found = []
    for place in (subject.chosen.get("heads"), subject.declared.get("heads"), subject.fixed.get("num_heads")):
        if isinstance(place, int):
            found.append(place)
    for name, given in subject.fixed.items():
        if isinstance(given, int) and not isinstance(given, bool) and "head" in name:
            found.append(given)
    if not found and watched is not None and watched.result.seen is not None:
        found += _ran(watched.result.seen)
    if not found and subject.owner is not None and watched is not None and watched.projected:
        width = watched.projected[0].features.shape[-1]
        found += [1, *(h for h in range(2, 33) if width % h == 0 and h <= width)]
    return list(dict.fromkeys(found)) or [1]


def _ran(seen: Any) -> list[int]:
    """How many heads the scores had that ran: (B, H, N, M)."""
    scores = [one["query"] for one in seen.kernels] + [given for _taken, _axis, given in seen.softmaxes]
    return [int(one.shape[1]) for one in scores[:1] if one.ndim == 4]


ORDERS = list(itertools.permutations(range(3)))


def letter_of(name: str) -> str:
    """Which of q, k, v a weight's name speaks of, or "".

    >>> letter_of("self_attn.W_key.weight"), letter_of("c_attn.weight"), letter_of("toqueries.weight")
    ('k', '', 'q')
    """
    words = re.split(r"[._]", name.lower().removesuffix(".weight"))
    for word in reversed(words):
        match = re.fullmatch(
            r"(?:w|to|fc|linear|lin|proj|in|m)?(q|k|v)(?:uer(?:y|ies)|ry|eys?|al(?:ue)?s?)?(?:proj|lin|linear|layer|w|fc)?",
            word,
        )
        if match:
            return match[1]
    return ""


def _threes(parts: list[Projected]) -> list[Guess]:
    letters = [letter_of(p.name) for p in parts]
    orders: list[tuple[int, ...]] = []
    if {"q", "k", "v"} <= set(letters):
        orders.append((letters.index("q"), letters.index("k"), letters.index("v")))
    orders += list(itertools.islice(itertools.permutations(range(min(len(parts), 5)), 3), 60))
    orders += [(a, b, b) for a, b in itertools.permutations(range(min(len(parts), 4)), 2)]
    found = []
    for a, b, c in dict.fromkeys(orders):
        q, k, v = parts[a], parts[b], parts[c]
        if k.features.shape[1] == v.features.shape[1]:
            found.append(Guess(q.features, k.features, v.features, "three", (q.name, k.name, v.name)))
    return found


def _per_head(parts: list[Projected]) -> list[Guess]:
    """A list of heads with projections of their own."""
    if len(parts) % 3 or len(parts) < 6 or len({p.features.shape[-1] for p in parts}) > 1:
        return []
    heads = len(parts) // 3
    letters = [letter_of(p.name) for p in parts]
    found = []
    sortings: list[list[list[int]]] = []
    if all(letters.count(letter) == heads for letter in "qkv"):
        sortings.append([[i for i, found_ in enumerate(letters) if found_ == letter] for letter in "qkv"])
    for order in ORDERS:
        sortings.append([[3 * h + o for h in range(heads)] for o in order])
        sortings.append([[heads * o + h for h in range(heads)] for o in order])
    for triple in sortings:
        if any(len({parts[i].features.shape[1] for i in one}) > 1 for one in triple):
            continue
        q, k, v = (np.concatenate([parts[i].features for i in one], -1) for one in triple)
        found.append(Guess(q, k, v, "per head", ("", "", ""), (heads,)))
    return found


def _fused(part: Projected, heads: list[int]) -> list[Guess]:
    features = part.features
    b, n, width = features.shape
    found = []
    if width % 3 == 0:
        thirds = np.split(features, 3, -1)
        found += [Guess.of((thirds[i] for i in order), "fused qkv", (part.name,) * 3) for order in ORDERS]
        for h in heads:
            if h > 1 and width % (3 * h) == 0:
                d = width // (3 * h)
                by_head = features.reshape(b, n, h, 3, d)
                by_channel = features.reshape(b, n, h, d, 3)
                for order in ORDERS:
                    found.append(
                        Guess.of(
                            (by_head[:, :, :, i].reshape(b, n, -1) for i in order), "fused per head", (part.name,) * 3
                        )
                    )
                    found.append(
                        Guess.of(
                            (by_channel[..., i].reshape(b, n, -1) for i in order),
                            "fused per channel",
                            (part.name,) * 3,
                        )
                    )
    for h, g in itertools.product(heads, range(1, 9)):
        if g < h and h % g == 0 and width % (h + 2 * g) == 0:
            d = width // (h + 2 * g)
            q, k, v = np.split(features, [h * d, (h + g) * d], -1)
            found.append(Guess(q, k, v, "fused grouped", (part.name,) * 3))
    return found


def laid(parts: list[Projected]) -> Iterator[Guess]:
    """A fused projection (B, N, 3·C) taken for (B, 3, N, C) or (3, B, N, C) as it lies in memory."""
    fused, times = parts[-1], 3 if len(parts) == 1 else 2
    b, n, width = fused.features.shape
    if width % times or len(parts) > 2:
        return
    first = [p.features for p in parts[:-1]]
    c = width // times
    names = (parts[0].name, fused.name, fused.name)
    for order in itertools.permutations(range(times)):
        inner, outer = fused.features.reshape(b, times, n, c), fused.features.reshape(times, b, n, c)
        yield Guess.of([*first, *(inner[:, i] for i in order)], f"({b}, {times}, {n}, {c})", names)
        yield Guess.of([*first, *(outer[i] for i in order)], f"({times}, {b}, {n}, {c})", names)


def miscut(part: Projected, heads: list[int], kv_heads: int, d: int) -> Iterator[Guess]:
    """A fused projection cut at other places than it should be."""
    features = part.features
    units = features.shape[-1] // d
    h, g = heads[0], kv_heads
    right = (0, h, h + g)
    for a, b, c in itertools.product(range(units - h + 1), range(units - g + 1), range(units - g + 1)):
        if (a, b, c) != right:
            cut = [features[..., s * d : (s + size) * d] for s, size in ((a, h), (b, g), (c, g))]
            yield Guess.of(cut, f"cut at {a}, {b}, {c}", (part.name,) * 3, (h,))


def _two(parts: list[Projected], heads: list[int]) -> list[Guess]:
    found = []
    for one, two in (parts, parts[::-1]):
        width = two.features.shape[-1]
        b, m, _ = two.features.shape
        if width % 2 == 0:
            halves = np.split(two.features, 2, -1)
            found += [
                Guess(one.features, halves[i], halves[1 - i], "q, kv", (one.name, two.name, two.name)) for i in (0, 1)
            ]
            for h in heads:
                if h > 1 and width % (2 * h) == 0:
                    by_head = two.features.reshape(b, m, h, 2, -1)
                    by_channel = two.features.reshape(b, m, h, -1, 2)
                    for i in (0, 1):
                        found.append(
                            Guess(
                                one.features,
                                by_head[:, :, :, i].reshape(b, m, -1),
                                by_head[:, :, :, 1 - i].reshape(b, m, -1),
                                "q, kv per head",
                                (one.name, two.name, two.name),
                            )
                        )
                        found.append(
                            Guess(
                                one.features,
                                by_channel[..., i].reshape(b, m, -1),
                                by_channel[..., 1 - i].reshape(b, m, -1),
                                "q, kv per channel",
                                (one.name, two.name, two.name),
                            )
                        )
        found.append(Guess(one.features, two.features, two.features, "q, k = v", (one.name, two.name, two.name)))
    return found


def bases(subject: Subject, guess: Guess, watched: Watched, pieces: tuple[Piece, ...]) -> Iterator[tuple[Form, At]]:
    """Right forms that this guess may have."""
    b, n = guess.q.shape[0], guess.q.shape[-2]
    m = guess.k.shape[-2]
    model = subject.width or guess.q.shape[-1]
    extra = tuple(dict.fromkeys([subject.sizes.context, *subject.numbers]))
    if subject.layout in ("bhnd", "bnhd") and guess.label.startswith("inputs"):
        h, d = guess.q.shape[1], guess.q.shape[-1]
        at = At(b, n, m, h * d, h, d, h, extra=extra)
        for merge in ("given", "hd"):
            form = Form(heads=h, kv_heads=guess.k.shape[1], split="given", merge=merge, pieces=pieces)
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
        form = Form(heads=h, kv_heads=kv_total // d, pieces=pieces)
        yield form, at
        if h > 1:
            for split, merge in (("dh", "dh"), ("dh", "hd"), ("hd", "dh")):
                yield replace(form, split=split, merge=merge), at
        yield replace(form, activation="relu"), at
        yield from ((placed, at) for placed in _placed(form, d, watched.turned))


def _placed(form: Form, d: int, turns: bool = True) -> Iterator[Form]:
    """The form with positions in it: rotary in either pairing, on whole heads or on the first channels; slopes."""
    if form.heads > 1:
        yield replace(form, slopes="right")
    if not turns:
        return
    parts = dict.fromkeys(r for r in (d // 4, d // 3, d // 2, 2 * d // 3, 3 * d // 4) if r >= 2 and r % 2 == 0)
    for turned in (0, *parts) if d % 2 == 0 else tuple(parts):
        yield replace(form, rotary="half", turned=turned)
        yield replace(form, rotary="pairs", turned=turned)


TOLERANCE = {"float64": 1e-6, "float32": 3e-4}


class Matcher:
    """Compares contexts with forms; the references are kept, since thousands are tried."""

    def __init__(self, subject: Subject, watched: Watched) -> None:
        self.subject, self.watched = subject, watched
        self.tolerance = TOLERANCE.get(subject.dtype, 3e-4)
        self.contexts = list(watched.contexts)
        self.sizes = [float(np.abs(np.where(np.isfinite(c), c, 0)).max()) or 1.0 for c in self.contexts]

    def error(self, guess: Guess, form: Form) -> tuple[float, int]:
        """The largest difference, relative to the largest number, and with which context."""
        try:
            with np.errstate(all="ignore"):
                mine = attention(guess.q, guess.k, guess.v, form)
        except (ValueError, IndexError):
            return np.inf, 0
        best, place = np.inf, 0
        for index, (theirs, size) in enumerate(zip(self.contexts, self.sizes, strict=True)):
            if mine.shape == theirs.shape:
                difference = np.abs(mine - theirs)
                same_nan = np.isnan(mine) == np.isnan(theirs)
                error = (
                    np.inf
                    if not same_nan.all() or np.isnan(mine).all()  # NaN alone is no number to compare
                    else float(np.nanmax(np.where(np.isnan(difference), 0, difference))) / size
                )
                if error < best:
                    best, place = error, index
        return best, place

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
            error, place = self.error(guess, form)
            if error < self.tolerance:
                return Match(Variant(form), guess, form, error, at, place)
        plain = [(g, f, at) for g, f, at in trials if (f.split == "hd" and f.merge == "hd") or f.split == "given"]
        likely = [id(g) for g in options[:2]]

        def order(trial: tuple[Guess, Form, At]) -> int:
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

    def _search(self, trials: list[tuple[Guess, Form, At]], wrong: Any) -> list[Match]:
        for guess, form, at in trials:
            hits = []
            for variant in wrong(form, at):
                error, place = self.error(guess, variant.form)
                if error < self.tolerance:
                    hits.append(Match(variant, guess, form, error, at, place))
            if hits:
                return hits
        return []

    def scale(self, guess: Guess, form: Form) -> tuple[float, float] | None:
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
