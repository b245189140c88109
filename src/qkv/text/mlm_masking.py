"""Masked words: what a BERT learns from. Some tokens are hidden, and the model says which they were."""

from collections.abc import Sequence

import numpy as np

from .seeded_rng import dice

IGNORED = -100  # the label of positions that do not count in the loss, as in torch's cross entropy


def mlm(
    ids: np.ndarray,
    seed: int,
    step: int,
    *,
    mask: int,
    vocab: int,
    special: Sequence[int] = (),
    share: float = 0.15,
) -> tuple[np.ndarray, np.ndarray]:
    """Hide `share` of the tokens of ids (B, N), at least one in each row: (x, labels), a pure function of (seed, step).

    Of the hidden tokens 80 % become `mask`, 10 % another token and 10 % stay, so that the model cannot rely on the
    token it sees either. Labels are the hidden tokens, and −100 elsewhere. Special tokens are never hidden nor put in.

    >>> x, labels = mlm(np.arange(20).reshape(1, 20), seed=0, step=0, mask=99, vocab=100)
    >>> int((labels >= 0).sum()), bool((x[labels < 0] == np.arange(20)[labels[0] < 0]).all())
    (3, True)
    """
    rng = dice(seed, step, stream=1)
    ordinary = ~np.isin(ids, [mask, *special])  # (B, N)
    # Each row hides the tokens with its smallest lots; special tokens have lots that are never small enough.
    ranks = np.where(ordinary, rng.random(ids.shape), 2.0)
    counts = ordinary.sum(-1, keepdims=True)
    n_hidden = np.minimum(counts, np.maximum(1, np.rint(share * counts)))  # (B, 1)
    hidden = ranks.argsort(-1).argsort(-1) < n_hidden
    fate = rng.random(ids.shape)
    choices = np.setdiff1d(np.arange(vocab), [mask, *special])
    others = choices[rng.integers(len(choices), size=ids.shape)]
    x = np.where(hidden & (fate < 0.8), mask, np.where(hidden & (fate >= 0.9), others, ids))
    return x, np.where(hidden, ids, IGNORED)
