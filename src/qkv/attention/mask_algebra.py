"""Masks as rules over index arithmetic (batch, head, query, key) → bool, and their algebra. True = may attend.

A rule can be evaluated on any rectangle, combined with `&`, `|`, `~`, and restricted to positions, items and heads.
The elementary rules are in rules.py, the public functions (`causal()`, `window(…)`, …) in masks.py.

B batch, H heads, N queries, M keys. Works on NumPy arrays without importing torch, and on torch tensors.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..i18n import Problem
from ..terminal.screen import InNotebook

if TYPE_CHECKING:
    import torch

    Table = np.ndarray | torch.Tensor
    TableLike = ArrayLike | torch.Tensor

Span = slice | Sequence[int] | None
A = TypeVar("A", np.ndarray, "torch.Tensor")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"&": operator.and_, "|": operator.or_}


@dataclass(frozen=True)
class Cells(Generic[A]):
    """The cells where a mask is evaluated: NumPy or torch index arrays that broadcast to (B, H, N, M)."""

    b: A
    h: A
    i: A  # query index
    j: A  # key index
    row: A  # position of the query among the keys
    col: A  # position of the key

    def convert(self, values: TableLike) -> A:
        """Return stored values (lengths, ids, …) in the array type and on the device of the indices."""
        if isinstance(self.i, np.ndarray):
            return to_numpy(values)
        import torch

        return torch.as_tensor(values, device=self.i.device)


def broadcast_index(index: A, size: int) -> A:
    """Return the index into an axis of this size; an axis of size 1 broadcasts."""
    return index * 0 if size == 1 else index


class Mask(InNotebook):
    """Base class of masks. Subclasses define in `allows` which pairs may attend."""

    batched = False  # True if the rule differs between batch items
    headed = False  # True if it differs between heads
    _is_table = False  # True for a table of fixed size, whatever the positions of queries and keys

    def allows(self, cells: Cells[A]) -> A:
        raise NotImplementedError

    def check(self, batch: int, heads: int, n: int, m: int) -> None:
        """Raise if the mask doesn't fit these sizes."""

    def size(self) -> tuple[int, int, int, int]:
        """Return the default (batch, heads, N, M) for drawing; 8×8 for rules without a size."""
        return 1, 1, 8, 8

    def array(
        self, n: int, m: int | None = None, *, batch: int = 1, heads: int = 1, rows: Span = None, cols: Span = None
    ) -> NDArray[np.bool_]:
        """Return the mask of n queries and m keys as a NumPy array that broadcasts to (batch, heads, rows, cols).

        >>> from .masks import causal
        >>> causal().array(2).tolist()
        [[[[True, False], [True, True]]]]
        >>> causal().array(100_000, rows=[499], cols=slice(498, 502)).tolist()
        [[[[True, True, False, False]]]]
        """
        return np.asarray(self._evaluate(np, n, m, batch, heads, rows, cols))

    def tensor(
        self,
        n: int,
        m: int | None = None,
        *,
        batch: int = 1,
        heads: int = 1,
        rows: Span = None,
        cols: Span = None,
        device: torch.device | str | None = None,
    ) -> torch.Tensor:
        """Return the mask as a bool tensor.

        >>> from .masks import causal
        >>> causal().tensor(2)
        tensor([[[[ True, False],
                  [ True,  True]]]])
        """
        import torch

        return self._evaluate(torch, n, m, batch, heads, rows, cols, device=device)

    def additive(self, n: int, m: int | None = None, *, dtype: torch.dtype | None = None, **where: Any) -> torch.Tensor:
        """Return the mask as a float tensor of 0 and −inf, to be added to scores.

        >>> from .masks import causal
        >>> causal().additive(2)
        tensor([[[[0., -inf],
                  [0., 0.]]]])
        """
        import torch

        allowed = self.tensor(n, m, **where)
        return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, float("-inf"))

    def _evaluate(
        self, xp: ModuleType, n: int, m: int | None, batch: int, heads: int, rows: Span, cols: Span, **device: object
    ) -> Any:
        """Return the mask as an array of the library `xp`, NumPy or torch."""

        def axis(size: int, span: Span, dim: int) -> Any:
            if isinstance(span, slice):
                index = xp.arange(*span.indices(size), **device)
            elif span is None:
                index = xp.arange(size, **device)
            else:
                indices = [int(i) for i in span]
                if wrong := [i for i in indices if not -size <= i < size]:
                    raise Problem("there is no row or column {place} of {size}", place=wrong[0], size=size)
                index = xp.asarray([i % size for i in indices], **device)
            return index.reshape([-1 if d == dim else 1 for d in range(4)])

        m = n if m is None else m
        self.check(batch, heads, n, m)
        i, j = axis(n, rows, 2), axis(m, cols, 3)
        b, h = axis(batch if self.batched else 1, None, 0), axis(heads if self.headed else 1, None, 1)
        return self.allows(Cells(b, h, i, j, row=i + (m - n), col=j))

    def terms(self) -> tuple[Mask, ...]:
        """Return the rules that must all hold; for most masks just the mask itself."""
        return (self,)

    def placed(self, queries: TableLike, keys: TableLike | None = None) -> Mask:
        """Return the rule for queries and keys at these positions, (N,) or (B, N); −1 marks an empty cache slot."""
        return Positioned(self, queries, keys)

    def only(self, items: Sequence[int] | None = None, heads: Sequence[int] | None = None) -> Mask:
        """Return the rule for these batch items and heads (default: all)."""
        items, heads = items if self.batched else None, heads if self.headed else None
        return self if items is None and heads is None else Subset(self, items, heads)

    def __and__(self, other: Mask) -> Mask:
        return combine(And, self, other)

    def __or__(self, other: Mask) -> Mask:
        return combine(Or, self, other)

    def __invert__(self) -> Mask:
        return self.rule if isinstance(self, Not) else Not(self)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(_equal_values(value, vars(other)[name]) for name, value in vars(self).items())

    def __hash__(self) -> int:
        return hash(type(self).__name__)

    def __str__(self) -> str:
        batch, heads, n, m = self.size()
        return self.draw(n, m, batch=batch, heads=heads)

    def draw(self, n: int, m: int | None = None, *, batch: int = 1, heads: int = 1, most: int = 48) -> str:
        """Return the mask as text: ■ may attend, · may not. Beyond `most` tokens each mark is a shaded block.

        Batch items and heads that differ are drawn below each other.

        >>> from .masks import causal
        >>> print(causal().draw(3))
        ■ · ·
        ■ ■ ·
        ■ ■ ■
        """
        m = n if m is None else m
        allowed = np.broadcast_to(self.array(n, m, batch=batch, heads=heads), (batch, heads, n, m))
        return "\n\n".join("\n".join(_marks(each, most)) for item in allowed for each in item)


class Full(Mask):
    def allows(self, cells: Cells[A]) -> A:
        return (cells.i >= 0) & (cells.j >= 0)

    def __repr__(self) -> str:
        return "full()"


class Positioned(Mask):
    def __init__(self, rule: Mask, queries: TableLike, keys: TableLike | None) -> None:
        self.rule, self.queries, self.keys = rule, as_rows(queries), None if keys is None else as_rows(keys)
        self.batched = rule.batched or len(self.queries) > 1 or (self.keys is not None and len(self.keys) > 1)
        self.headed = rule.headed

    def allows(self, cells: Cells[A]) -> A:
        def position(table: Table, index: A) -> A:
            positions = cells.convert(table)
            return positions[broadcast_index(cells.b, len(positions)), index]

        row = position(self.queries, cells.i)
        col = cells.col if self.keys is None else position(self.keys, cells.j)
        return self.rule.allows(Cells(cells.b, cells.h, cells.i, cells.j, row=row, col=col)) & (col >= 0)

    def check(self, batch: int, heads: int, n: int, m: int) -> None:
        if self.queries.shape[1] != n or (len(self.queries) != 1 and len(self.queries) != batch):
            raise Problem(
                "positions are {shape} but queries are {queries}: give one each",
                shape=tuple(self.queries.shape),
                queries=(batch, n),
            )
        for rule in self.rule.terms():
            if rule._is_table:
                rule.check(batch, heads, n, m)

    def size(self) -> tuple[int, int, int, int]:
        batch, n = self.queries.shape
        m = int(to_numpy(self.queries).max(initial=0)) + 1 if self.keys is None else self.keys.shape[1]
        return max(batch, self.rule.size()[0]), self.rule.size()[1], n, m

    def __repr__(self) -> str:
        return f"{self.rule!r}.placed({to_numpy(self.queries).tolist()})"


class Subset(Mask):
    """A rule restricted to some items and heads, which are renumbered from 0."""

    def __init__(self, rule: Mask, items: Sequence[int] | None, heads: Sequence[int] | None) -> None:
        self.rule = rule
        self.items, self.heads = (None if subset is None else np.asarray(subset) for subset in (items, heads))
        self.batched = rule.batched if self.items is None else len(self.items) > 1
        self.headed = rule.headed if self.heads is None else len(self.heads) > 1

    def allows(self, cells: Cells[A]) -> A:
        b = cells.b if self.items is None else cells.convert(self.items)[cells.b]
        h = cells.h if self.heads is None else cells.convert(self.heads)[cells.h]
        return self.rule.allows(replace(cells, b=b, h=h))

    def size(self) -> tuple[int, int, int, int]:
        batch, heads, n, m = self.rule.size()
        batch, heads = (
            size if subset is None else len(subset) for size, subset in ((batch, self.items), (heads, self.heads))
        )
        return batch, heads, n, m

    def __repr__(self) -> str:
        items, heads = (None if subset is None else subset.tolist() for subset in (self.items, self.heads))
        return f"({self.rule!r}).only({items}, {heads})"


class Combination(Mask):
    sign = ""

    def __init__(self, rules: tuple[Mask, ...]) -> None:
        self.rules = rules
        self.batched, self.headed = any(r.batched for r in rules), any(r.headed for r in rules)

    def allows(self, cells: Cells[A]) -> A:
        allowed = self.rules[0].allows(cells)
        for rule in self.rules[1:]:
            allowed = OPERATORS[self.sign](allowed, rule.allows(cells))
        return allowed

    def check(self, batch: int, heads: int, n: int, m: int) -> None:
        for rule in self.rules:
            rule.check(batch, heads, n, m)

    def size(self) -> tuple[int, int, int, int]:
        sizes = [rule.size() for rule in self.rules]
        sized = [size for size in sizes if size[2:] != (8, 8)] or sizes
        batch, heads = max(size[0] for size in sizes), max(size[1] for size in sizes)
        return batch, heads, max(size[2] for size in sized), max(size[3] for size in sized)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Combination) or type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.rules, other.rules
        return len(mine) == len(theirs) and all(any(a == b for b in theirs) for a in mine)

    __hash__ = Mask.__hash__

    def __repr__(self) -> str:
        return f" {self.sign} ".join(f"({r!r})" if isinstance(r, Combination) else repr(r) for r in self.rules)


class And(Combination):
    sign = "&"

    def terms(self) -> tuple[Mask, ...]:
        return self.rules

    def only(self, items: Sequence[int] | None = None, heads: Sequence[int] | None = None) -> Mask:
        return And(
            tuple(rule.only(items, heads) for rule in self.rules)
        )  # an And, so that kernels still find its bands


class Or(Combination):
    sign = "|"


class Not(Mask):
    def __init__(self, rule: Mask) -> None:
        self.rule = rule
        self.batched, self.headed = rule.batched, rule.headed

    def allows(self, cells: Cells[A]) -> A:
        return ~self.rule.allows(cells)

    def check(self, batch: int, heads: int, n: int, m: int) -> None:
        self.rule.check(batch, heads, n, m)

    def size(self) -> tuple[int, int, int, int]:
        return self.rule.size()

    def __repr__(self) -> str:
        return f"~({self.rule!r})" if isinstance(self.rule, Combination) else f"~{self.rule!r}"


def combine(kind: type[Combination], a: Mask, b: Mask) -> Mask:
    if not isinstance(b, Mask):
        raise TypeError(f"a mask combines with masks, not with {type(b).__name__}; write masks.dense(tensor)")
    neutral = kind is And  # full & x is x; full | x is full
    if isinstance(a, Full):
        return b if neutral else a
    if isinstance(b, Full):
        return a if neutral else b
    rules: list[Mask] = []
    for part in (a, b):
        for rule in part.rules if isinstance(part, kind) else (part,):
            if not any(_surely_equal(rule, other) for other in rules):
                rules.append(rule)
    return rules[0] if len(rules) == 1 else kind(tuple(rules))


def _surely_equal(a: Mask, b: Mask) -> bool:
    """True if two rules are known to be equal. Tensors are compared by identity: reading them would wait for the device."""
    if a is b:
        return True
    values = [value for rule in (a, b) for value in vars(rule).values()]
    return not any(hasattr(value, "detach") or isinstance(value, (tuple, Mask)) for value in values) and a == b


def _marks(allowed: NDArray[np.bool_], most: int) -> list[str]:
    n, m = allowed.shape
    if max(n, m) <= most:
        return [" ".join("■" if a else "·" for a in row) for row in allowed]
    rows, cols = np.array_split(np.arange(n), min(n, most)), np.array_split(np.arange(m), min(m, most))
    shares = [[allowed[r[0] : r[-1] + 1, c[0] : c[-1] + 1].mean() for c in cols] for r in rows]
    return [" ".join("·" if s == 0 else "■" if s == 1 else "░▒▓"[min(int(s * 3), 2)] for s in row) for row in shares]


def as_array(array: TableLike) -> Table:
    """Return tensors unchanged and anything else as a NumPy array (as a tensor while torch compiles)."""
    if is_tensor(array):
        return array
    torch = sys.modules.get("torch")
    return torch.as_tensor(array) if torch is not None and torch.compiler.is_compiling() else np.asarray(array)


def is_tensor(values: object) -> TypeGuard[torch.Tensor]:
    return hasattr(values, "detach")


def as_rows(array: TableLike) -> Table:
    values = as_array(array)
    return values[None] if values.ndim == 1 else values


def to_numpy(values: TableLike) -> np.ndarray:
    return values.detach().cpu().numpy() if is_tensor(values) else np.asarray(values)


def is_bool(values: Table) -> bool:
    return str(values.dtype) in ("bool", "torch.bool")


def is_integer(values: Table) -> bool:
    return "int" in str(values.dtype)


def _equal_values(a: object, b: object) -> bool:
    if (is_tensor(a) or isinstance(a, np.ndarray)) and (is_tensor(b) or isinstance(b, np.ndarray)):
        return a.shape == b.shape and bool((to_numpy(a) == to_numpy(b)).all())
    return type(a) is type(b) and bool(a == b)
