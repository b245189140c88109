"""Who might be q, k and v: every assignment of what was projected, the likeliest by name and order first."""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..subject.guess import meaning
from ..subject.subject import Subject
from .watching import Projected, Watched

Array = np.ndarray


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
        if isinstance(given, int) and not isinstance(given, bool) and ("head" in name or meaning(name) == "heads"):
            found.append(given)
    if not found and watched is not None and watched.result.seen is not None:
        found += _ran(watched.result.seen)
    if not found and watched is not None and watched.projected:
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
            r"(?:w|to|fc|linear|lin|proj|in|m)?(q|k|v)(?:uer(?:y|ies)|ry|eys?|al(?:ue)?s?|s)?(?:proj|lin|linear|layer|w|fc)?",
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


def _cuts(features: Array, times: int, heads: list[int]) -> Iterator[list[tuple[str, list[Array]]]]:
    """Features in so many parts: side by side; then within each head, by parts or by channels."""
    b, n, width = features.shape
    if width % times:
        return
    yield [("", np.split(features, times, -1))]
    for h in heads:
        if h > 1 and width % (times * h) == 0:
            by_head, by_channel = features.reshape(b, n, h, times, -1), features.reshape(b, n, h, -1, times)
            yield [
                (" per head", [by_head[:, :, :, i].reshape(b, n, -1) for i in range(times)]),
                (" per channel", [by_channel[..., i].reshape(b, n, -1) for i in range(times)]),
            ]


def _fused(part: Projected, heads: list[int]) -> list[Guess]:
    features, width = part.features, part.features.shape[-1]
    found = [
        Guess.of((parts[i] for i in order), f"fused{how or ' qkv'}", (part.name,) * 3)
        for cuts in _cuts(features, 3, heads)
        for order in ORDERS
        for how, parts in cuts
    ]
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
        names = (one.name, two.name, two.name)
        found += [
            Guess(one.features, halves[i], halves[1 - i], f"q, kv{how}", names)
            for cuts in _cuts(two.features, 2, heads)
            for i in (0, 1)
            for how, halves in cuts
        ]
        found.append(Guess(one.features, two.features, two.features, "q, k = v", names))
    return found
