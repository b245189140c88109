"""A mask that a file makes: what it is, and what attention that takes it so would see."""

from dataclasses import dataclass

import numpy as np

from .guess import current_draw


@dataclass(frozen=True)
class Made:
    """One mask that the file makes: what it is called, where, and its numbers."""

    name: str
    line: int
    values: np.ndarray
    given: str = ""  # the argument that it is handed over as, where that is named

    @property
    def kind(self) -> str:
        """ "bool", "int" (0 and 1), "float" (0 and 1) or "additive" (0 and very low)."""
        if self.values.dtype.kind == "f":
            return "additive" if (self.values < -100).any() else "float"
        return "bool" if self.values.dtype == bool else "int"

    def lets(self, means: str) -> bool | None:
        """Whether attention that takes it so sees the past and the words; False: the future and the padding; None: neither.

        >>> Made("m", 1, np.tril(np.ones((5, 5)))).lets("keep"), Made("m", 1, np.tril(np.ones((5, 5)))).lets("block")
        (True, False)
        """
        keep = {"keep": self.values != 0, "block": self.values == 0, "additive": self.values > -100}[means]
        found = _triangle(keep)
        return _padding(keep) if found is None else found

    def shown(self) -> str:
        """A corner of it, as a person reads it: [[1, 0, 0], [1, 1, 0], [1, 1, 1]]."""
        flat = self.values.reshape(-1, *self.values.shape[-2:])[0] if self.values.ndim > 1 else self.values[None]
        rows = flat[:3, :3] if flat.shape[0] == flat.shape[1] else flat[:1]
        return "[" + ", ".join("[" + ", ".join(f"{x:g}" for x in row.astype(float)) + "]" for row in rows) + "]"

    def words(self) -> np.ndarray | None:
        """(B, N): which tokens are words, where it marks padding at the end of texts; None where it marks anything else.

        >>> Made("pad", 1, np.array([[0, 0, 1], [0, 0, 0]])).words().astype(int).tolist()
        [[1, 1, 0], [1, 1, 1]]
        """
        sides = [s for s in self.values.shape if s > 1]
        if len(sides) != 2 or self.values.shape[0] != sides[0]:
            return None
        marks = self.values.reshape(sides)
        marks = marks < -100 if self.kind == "additive" else marks != 0
        words = marks == marks[:, :1]
        ends = (marks[:, :1] == marks[:1, :1]).all() and (words[:, 1:] <= words[:, :-1]).all()
        if len(words) == words.shape[1] and (np.diff(words.sum(1)) == 1).all():
            return None  # a triangle
        return words if ends and not words.all() else None


def _triangle(keep: np.ndarray) -> bool | None:
    if keep.ndim < 2 or keep.shape[-1] != keep.shape[-2] or keep.shape[-1] < 2:
        return None
    n = keep.shape[-1]
    past, future = (keep[..., np.tril(np.ones((n, n), bool), -1)], keep[..., np.triu(np.ones((n, n), bool), 1)])
    if past.any() and not future.any():
        return True
    return False if future.all() and not past.all() else None


def _padding(keep: np.ndarray) -> bool | None:
    lengths = current_draw().lengths
    n = max(lengths)
    if keep.ndim < 2 or keep.shape[0] != len(lengths) or keep.shape[-1] != n:
        return None
    first = keep.reshape(len(lengths), -1, n)[:, 0]  # as the first word of each text has it
    words = np.arange(n) < np.array(lengths)[:, None]
    return True if (first == words).all() else False if (first != words).all() else None
