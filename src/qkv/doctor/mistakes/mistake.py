"""What a mistake is: its words, the evidence for it, attention computed with it, and where it stands in a file.

Each is one class in one of these files; adding one is writing one class (CONTRIBUTING.md).
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..numbers.oracle import AttentionForm, changed
from ..source.trees import Code

Wrong = Iterator[tuple[AttentionForm, dict[str, Any]]]  # forms with the mistake in them, and numbers for the evidence
Places = Iterator[tuple[int, Any, str]]  # (rank, tree or line, patch): 0 is how it is written, 2 is about here


@dataclass(frozen=True)
class At:
    """The sizes at which attention was watched."""

    batch: int
    n: int
    m: int
    width: int  # of the model
    heads: int
    head: int  # width of one head
    kv_heads: int
    declared: int = 0  # heads that the constructor was asked for
    extra: tuple[int, ...] = ()  # other sizes around: the context length, the first call's width…


@dataclass(frozen=True)
class Op:
    """One operation as it ran: what was asked, what came, and by which expression of the file (line, column)."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    span: tuple[int, int]

    @property
    def key(self) -> tuple[str, tuple[int, int]]:
        """The same for all rounds of a loop."""
        return self.name, self.span


class Mistake:
    """One mistake of the catalogue. It is never made: the class is all there is to say."""

    id: ClassVar[str]
    name: ClassVar[str]
    does: ClassVar[str]  # what becomes of a model that has it
    fix: ClassVar[str]
    shows: ClassVar[str]  # how it is found
    evidence: ClassVar[Mapping[str, str]] = {}  # what was seen, by the way it was seen; "" is the usual one
    explains: ClassVar[int] = 99  # of several that give the same numbers, the smallest is named

    @staticmethod
    def forms(form: AttentionForm, at: At) -> Wrong:
        """Right attention in, attention with this mistake out; nothing where it can't be made there."""
        return iter(())

    @staticmethod
    def repair(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
        """What an operation that ran should have given instead, in each way it may have been the guilty one."""
        return iter(())

    @staticmethod
    def places(code: Code, root: ast.AST) -> Places:
        """Where it may stand in what was checked."""
        return iter(())


def rescaled(op: Op, at: At, form: AttentionForm) -> Iterator[Any]:
    """Scores, or what they are made of, as large as they should be: where a number is multiplied in, else at the product."""
    used = at.head**-0.5 if form.scale is None else form.scale
    number = any(np.ndim(one) == 0 for one in op.args if not isinstance(one, (tuple, list, str)))
    if (op.name in SCALINGS and number) or (op.name in PRODUCTS and len(op.args) > 1):
        yield op.result * (at.head**-0.5 / used)


SCALINGS = {"mul", "multiply", "div", "divide", "true_divide", "truediv", "rmul", "rtruediv", "mul_", "div_"}
PRODUCTS = {"matmul", "rmatmul", "bmm", "einsum", "baddbmm"}


def masked_wrongly(form: AttentionForm, how: str) -> Wrong:
    """One mask after the other gets into the scores in another way."""
    for place, piece in enumerate(form.pieces):
        if piece.how == "fill" and not (piece.inner and how in ("ignored", "inverted")):
            for given in ("keep", "block") if piece.inner and how in ("added", "multiplied") else (piece.given,):
                other = replace(piece, how=how, given=given)
                yield changed(form, pieces=(*form.pieces[:place], other, *form.pieces[place + 1 :])), {"how": how}


def triangle(n: int, m: int, kind: str) -> np.ndarray:
    """(N, M) booleans: causal, and the ways people get it wrong.

    >>> triangle(3, 3, "strict").astype(int).tolist()
    [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    """
    i, j = np.arange(n)[:, None] + (m - n), np.arange(m)[None]
    return {
        "causal": j <= i,
        "strict": j < i,
        "ahead": j <= i + 1,
        "transposed": j >= i,
        "strictly transposed": j > i,
        "upper left": j <= i - (m - n),
    }[kind]
