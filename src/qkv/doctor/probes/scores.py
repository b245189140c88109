"""Where the whole can't be compared (gates, biases, norms of q and k), its parts still can: what went into the softmax
against the product of q and k; and what the values are multiplied with, whose shares must add up to 1 over the keys.
"""

import contextlib

import numpy as np

from ...i18n import Message, _
from ..case import Case
from ..numbers.watching import shares_of
from ..subject.errors import UserError
from ..subject.values import to_numpy

Array = np.ndarray


def examine(case: Case) -> None:
    """Name a wrong scale or axis by what was watched; nothing where it can't be told for sure."""
    subject = case.subject
    if case.match is not None or subject.framework != "torch":
        return
    with contextlib.suppress(UserError):
        _axis(case)
    if subject.layout not in ("bnc", "nbc", "ids"):
        return
    try:
        one, two = (_watched(case, seed) for seed in (0, 21))
    except UserError:
        return
    if one is None or two is None or one.product.shape != two.product.shape:
        return
    case.checked.append("scores")
    _scale(case, one, two)


class _Scores:
    """q·k as it was computed, how many channels it sums over, and what the softmax took."""

    def __init__(self, left: Array, right: Array, product: Array, taken: Array) -> None:
        self.product, self.taken = product, taken
        shared = [s for s in left.shape if s in right.shape and s not in product.shape[-2:]]
        self.width = shared[-1] if shared else left.shape[-1]


def _watched(case: Case, seed: int) -> _Scores | None:
    """The first softmax of a run over (…, N, M), and the product before it."""
    n, m = case.lengths
    seen = case.subject(case.subject.draw(seed, n=n, m=m), watch=True).seen
    if seen is None or not seen.softmaxes or not seen.scored:
        return None
    taken = seen.softmaxes[0][0]
    if tuple(taken.shape[-2:]) != (n, m):
        return None
    for met in seen.scored:
        if met.given.shape == taken.shape:
            return _Scores(*map(to_numpy, (met.left, met.right, met.given, taken)))
    return None


def _axis(case: Case) -> None:
    """The shares of each query must add up to 1 over the keys that it takes values from; along what else do they?"""
    n, m = case.lengths
    for shares in shares_of(case.subject(case.inputs, watch=True), n, m):
        sums = [bool(np.allclose(shares.sum(axis), 1)) for axis in range(shares.ndim)]
        if sums[-1] or not any(sums):
            continue
        axis = sums.index(True)
        if axis == shares.ndim - 2:
            id_, where = "X1", Message("the queries")
        elif axis == 0 and len(shares) == case.subject.sizes.batch:
            id_, where = "X2", Message("the batch")
        else:
            id_, where = "X3", Message("the heads")
        said = _("the shares of the softmax add up to 1 along another axis than the keys: {axis}")
        case.add(id_, sentence=said, axis=where)
        return


def _scale(case: Case, one: _Scores, two: _Scores) -> None:
    """The slope between two runs: a bias that depends on places alone drops out."""
    with np.errstate(invalid="ignore"):  # −inf − −inf, where both are masked
        rises, runs = one.taken - two.taken, one.product - two.product
    told = np.isfinite(rises) & (np.abs(one.taken) < 1e8) & (np.abs(two.taken) < 1e8)
    x, y = runs[told], rises[told]
    if len(x) < 8 or not np.abs(x).max() > 1e-6:
        return
    slope = float((x @ y) / (x @ x))
    if slope <= 0 or np.abs(y - slope * x).max() > 1e-6 * np.abs(y).max():
        return
    d, width = one.width, case.subject.width
    if abs(slope * d**0.5 - 1) < 1e-6 or abs(slope - 1) < 1e-9 or abs(slope * d - 1) < 1e-6:
        return  # right; scaled before the product or not at all, which can't be told; 1/d, meant so
    known = {"S1": [d**0.5], "S3": [width**-0.5] if width not in (0, d) else []}
    others = {*case.lengths, case.subject.sizes.batch, case.heads} - {1, d, width}
    known["S4"] = [size**-0.5 for size in others]
    for id_, values in known.items():
        if any(abs(slope / value - 1) < 1e-6 for value in values):
            case.add(
                id_,
                sentence=_(
                    "what goes into the softmax is q·k times {scale}; q and k are {head} wide, so it should be 1/√{head} = {right}"
                ),
                scale=slope,
                head=d,
                right=d**-0.5,
            )
            return
