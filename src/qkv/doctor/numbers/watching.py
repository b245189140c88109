"""One run looked into: what weights made of each token alone, and what came of mixing them."""

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..subject.capture import as_tokens, named
from ..subject.subject import Result, Subject
from ..subject.values import to_numpy

Array = np.ndarray


@dataclass(frozen=True)
class Projected:
    """Features of tokens that a weight made: (B, N, features)."""

    features: Array
    name: str = ""
    weight: tuple[int, ...] = ()
    source: str = ""  # which input it came from


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
        met = [one["query"] for one in getattr(seen, "kernels", [])] or [
            one.left for one in getattr(seen, "scored", [])
        ]
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
    last = to_numpy(seen.kernels[-1]["out"] if seen.kernels else seen.scored[-1].given)
    if last.ndim == 4 and last.shape[0] == batch and last.shape[2] == n:
        return [last.transpose(0, 2, 1, 3).reshape(batch, n, -1)]
    if last.ndim == 3 and last.shape[0] % batch == 0 and last.shape[1] == n:  # texts outermost, or heads
        outer, inner = last.reshape(batch, -1, n, last.shape[-1]), last.reshape(-1, batch, n, last.shape[-1])
        both = outer.transpose(0, 2, 1, 3), inner.transpose(1, 2, 0, 3)
        return [one.reshape(batch, n, -1) for one in both]
    return []


def shares_of(result: Result, n: int, m: int) -> list[Array]:
    """What was multiplied with values, (…, N, M): shares between 0 and 1, of which the product sums over the last axis."""
    found = []
    for met in getattr(result.seen, "scored", ()):
        for tensor, axes in zip((met.left, met.right), met.axes, strict=True):
            if axes is not None and (tensor.shape[axes[0]], tensor.shape[axes[1]]) == (n, m):
                shares = np.moveaxis(to_numpy(tensor), axes, (-2, -1))
                if np.isfinite(shares).all() and shares.min() >= 0 and shares.max() < 1 + 1e-6:
                    found.append(shares)
    return found


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
