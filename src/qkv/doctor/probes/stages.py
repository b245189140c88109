"""Where the numbers leave attention: which of its stages were recognised in a run, and the first one that was not.

projections → q·k → scale and mask → softmax over the keys → weights · v → output
"""

from collections.abc import Iterator

import numpy as np

from ...i18n import Message, _, all_of
from ..case import Case
from ..subject.values import to_numpy

Array = np.ndarray

STAGES = {
    "projections": _("the projections"),
    "scores": _("q·k"),
    "softmax input": _("the scores before the softmax"),
    "softmax": _("the softmax over the keys"),
    "weights": _("weights times values"),
}
DIFFERENCES = {
    "projections": _("no projection of single tokens was found"),
    "scores": _(
        "q or k is changed between its projection and the product (a norm, positions, a gate), or there is no such product"
    ),
    "softmax input": _(
        "the scores are changed before the softmax by more than a factor (something is added, or a function is applied)"
    ),
    "softmax": _("no softmax whose weights add up to 1 over the keys was found"),
    "weights": _("the weights, or v, are changed between the softmax and their product"),
    "output": _("the result is changed after the weights were applied to v"),
}


def sentence(case: Case) -> Message:
    """The stages that matched and where the first difference arises, in one sentence."""
    matched, different = recognised(case)
    listed = [Message(STAGES[stage]) for stage in matched] or [Message(_("nothing"))]
    return Message(
        _(
            "the numbers, one by one: they are those of no known form of attention. Recognised: {matched}. First difference: {different}"
        ),
        matched=all_of(listed),
        different=Message(DIFFERENCES[different]),
    )


def recognised(case: Case) -> tuple[list[str], str]:
    """The stages that were recognised, in order, and the first that was not."""
    stages = list(STAGES)
    for place, holds in enumerate(_holds(case)):
        if not holds:
            return stages[:place], stages[place]
    return stages, "output"


def _holds(case: Case) -> Iterator[bool]:
    """Whether each stage is there, in order."""
    watched = case.watched
    yield watched is not None and bool(watched.projected)
    assert watched is not None
    seen, (n, m) = watched.result.seen, case.lengths
    made = np.sort(np.concatenate([p.features.ravel() for p in watched.projected]))
    kernel = next(iter(getattr(seen, "kernels", [])), None)
    if kernel is not None:  # PyTorch's own does all between q, k, v and the weighted values
        yield all(_within(made, to_numpy(kernel[name])) for name in ("query", "key"))
        yield True
        yield True
        yield _within(made, to_numpy(kernel["value"]))
        return
    softmax = next((one for one in getattr(seen, "softmaxes", []) if one[0].shape[-2:] == (n, m)), None)
    met = next(
        (one for one in getattr(seen, "scored", []) if softmax is None or one.given.shape == softmax[0].shape), None
    )
    yield met is not None and all(_within(made, to_numpy(one)) for one in (met.left, met.right))
    assert met is not None
    yield softmax is not None and _proportional(to_numpy(softmax[0]), to_numpy(met.given))
    assert softmax is not None
    shares = to_numpy(softmax[2])
    yield bool(np.allclose(shares.sum(-1), 1))
    used = [(one.left, one.right) for one in seen.scored if one.left.shape == softmax[2].shape]
    yield any(np.array_equal(to_numpy(left), shares) and _within(made, to_numpy(right)) for left, right in used)


def _within(made: Array, some: Array) -> bool:
    """True if numbers are among those that the projections made, up to a scale of 1, 1/√d or d^(−1/4)."""
    d = some.shape[-1]
    some = some.ravel()[:: max(1, some.size // 64)]
    top = np.abs(made).max() or 1
    for scale in (1.0, d**-0.5, d**-0.25):
        near = np.searchsorted(made, some / scale).clip(1, len(made) - 1)
        gap = np.minimum(np.abs(made[near] - some / scale), np.abs(made[near - 1] - some / scale))
        if gap.max() < 1e-9 * top:
            return True
    return False


def _proportional(taken: Array, product: Array) -> bool:
    """True if the softmax took the product times one factor, but for keys that are hidden."""
    kept = np.isfinite(taken) & (np.abs(taken) < 1e3)
    x, y = product[kept], taken[kept]
    if x.size < 2 or not (x @ x) > 0:
        return False
    return bool(np.abs(y - (x @ y) / (x @ x) * x).max() < 1e-6 * (np.abs(y).max() or 1))
