"""Softmax block by block: why flash attention never needs the n×n matrix.

For each query three values are updated per block: the largest score so far, the sum of e^(score − largest), and the sum
of e^(score − largest)·v. When the largest score grows, both sums are multiplied by e^(old − new). Their quotient at the
end is exactly softmax(QKᵀ/√d)V, with only `block` columns in memory at a time.

N queries, M keys, D head width.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..i18n import Problem, _, say
from ..terminal import text_grid
from ..terminal.screen import InNotebook
from . import masks
from .oracle import Array, Steps, check_finite, from_qkv


@dataclass(frozen=True, eq=False)
class Tile:
    """The state after a block of keys."""

    keys: slice
    best: Array  # (N,)   largest score of the block, −inf if all of it is hidden
    largest: Array  # (N,)   running maximum, −inf before the first allowed key
    total: Array  # (N,)   running Σ e^(score − largest)
    output: Array  # (N, D) running Σ e^(score − largest)·v, not yet divided
    shrink: Array  # (N,)   factor of the earlier sums


@dataclass(frozen=True, eq=False, repr=False)
class Tiles(InNotebook):
    """The blocks in order, the final output and the plain computation it equals.

    >>> t = tiles([[1.0]], [[1.0], [2.0], [3.0]], [[1.0], [2.0], [3.0]], block=2)
    >>> t
    <Tiles: 2 blocks of 2 keys, difference 0.0e+00>
    >>> t.output.round(3).tolist(), t.plain.output.round(3).tolist(), t.difference < 1e-15
    ([[2.575]], [[2.575]], True)
    >>> t.to_dict()["tiles"][1]["keys"]
    [2]
    >>> print(t.show(lang="en").splitlines()[0])
    The same softmax, 2 keys at a time (how flash attention needs no n×n matrix)
    """

    tiles: tuple[Tile, ...]
    output: Array  # (N, D)
    plain: Steps
    block: int

    @property
    def difference(self) -> float:
        """The largest difference between this output and the plain one."""
        return float(np.abs(self.output - self.plain.heads).max(initial=0.0))

    def __str__(self) -> str:
        return self.show()

    def __repr__(self) -> str:
        return f"<Tiles: {len(self.tiles)} blocks of {self.block} keys, difference {self.difference:.1e}>"

    def to_dict(self) -> dict[str, Any]:
        """Return lists and numbers; −inf (no key seen yet) becomes None."""
        blocks = [
            {
                "keys": list(range(tile.keys.start, tile.keys.stop)),
                "largest": [None if value == -np.inf else value for value in tile.largest.tolist()],
                **{name: getattr(tile, name).tolist() for name in ("total", "output", "shrink")},
            }
            for tile in self.tiles
        ]
        return {
            "block": self.block,
            "tiles": blocks,
            "output": self.output.tolist(),
            "difference": self.difference,
        }

    def show(self, row: int = -1, *, name: str | None = None, lang: str | None = None, digits: int = 3) -> str:
        """Return the running maximum, sum and output of a query (default: the last) after each block as text."""
        row = range(len(self.output))[row]
        name = f"q{row}" if name is None else name
        title = _("The same softmax, {block} keys at a time (how flash attention needs no n×n matrix)")
        lines = [say(title, lang, block=self.block), say("Shown: the row of {word}.", lang, word=name)]
        before = -np.inf
        for tile in self.tiles:
            new, hidden = tile.largest[row], tile.best[row] == -np.inf
            key = _(
                "keys {low} to {high}: maximum {old} → {new}; what was summed so far is multiplied by e^(old − new) = "
                "{shrink}"
            )
            if hidden:
                key = _("keys {low} to {high}: all hidden by the mask; nothing changes")
            elif before == -np.inf:
                key = _("keys {low} to {high}: maximum {new}; nothing was summed before")
            span = dict(
                low=tile.keys.start, high=tile.keys.stop - 1, old=text_grid.number(before), new=text_grid.number(new)
            )
            lines += ["", "  " + say(key, lang, **span, shrink=float(tile.shrink[row]))]
            lines.append("    " + say("running sum", lang) + " " + text_grid.number(tile.total[row], digits))
            values = text_grid.numbers(tile.output[None, row], [say("running output", lang)], digits=digits)
            lines.append("    " + values)
            before = new
        end = _("Output = running output / running sum. Largest difference from the plain way: {difference}.")
        return "\n".join([*lines, "", "  " + say(end, lang, difference=self.difference)])


def tiles(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    block: int = 2,
    mask: "masks.Mask | ArrayLike | None" = None,
    scale: float | None = None,
) -> Tiles:
    """Compute attention of one head, q (N, D) over k and v (M, D), `block` keys at a time.

    >>> q, k, v = np.eye(3), np.eye(3), np.eye(3)
    >>> t = tiles(q, k, v, block=2)
    >>> len(t.tiles), t.difference < 1e-15
    (2, True)
    """
    if block < 1:
        raise Problem("block is {block}: give 1 or more keys", block=block)
    plain = from_qkv(q, k, v, mask, scale)
    q, k, v = plain.q, plain.k, plain.v
    if q.ndim != 2:
        raise Problem("tiles shows one head: q is {shape}, it needs (N, D)", shape=q.shape)
    n, m = len(q), len(k)
    rule = masks.resolve(mask)

    largest, total, output = np.full(n, -np.inf), np.zeros(n), np.zeros((n, v.shape[1]))
    blocks = []
    for start in range(0, m, block):
        keys = slice(start, min(start + block, m))
        scores = q @ k[keys].T * plain.scale  # (N, block)
        scores = np.where(rule.array(n, m, cols=keys)[0, 0], scores, -np.inf)
        best = scores.max(-1)
        new = np.maximum(largest, best)
        floor = np.where(np.isneginf(new), 0.0, new)  # −inf − −inf is NaN: a row without visible keys stays at 0
        with np.errstate(over="ignore"):  # e^(−1e308 − 1e308) is 0; check_finite catches sums that overflow
            shrink = np.exp(largest - floor)
            exponentials = np.exp(scores - floor[:, None])  # (N, block)
            largest, total = new, total * shrink + exponentials.sum(-1)
            output = check_finite("running output", output * shrink[:, None] + exponentials @ v[keys])  # (N, D)
        blocks.append(Tile(keys, best, largest, total, output, shrink))
    divided = np.divide(output, total[:, None], out=np.zeros_like(output), where=total[:, None] > 0)
    return Tiles(tuple(blocks), divided, plain, block)
