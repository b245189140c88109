"""Masked language modelling (BERT): hide some tokens for the model to predict."""

from collections.abc import Sequence

import numpy as np

from .seeded_rng import dice

IGNORED = -100  # label of positions without a loss, as in torch's cross entropy


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
    """Hide `share` of the tokens of ids (B, N), at least one per row: (x, labels), a pure function of (seed, step).

    Of the hidden tokens 80 % become `mask`, 10 % become another token and 10 % stay, so that the model cannot trust the
    tokens it sees. Labels are the hidden tokens, −100 elsewhere. Special tokens are neither hidden nor inserted.

    >>> x, labels = mlm(np.arange(20).reshape(1, 20), seed=0, step=0, mask=99, vocab=100)
    >>> int((labels >= 0).sum()), bool((x[labels < 0] == np.arange(20)[labels[0] < 0]).all())
    (3, True)
    """
    rng = dice(seed, step, stream=1)
    ordinary = ~np.isin(ids, [mask, *special])  # (B, N)
    # Each row hides the tokens with the smallest random numbers; special tokens have 2, which is never small enough.
    random_numbers = np.where(ordinary, rng.random(ids.shape), 2.0)
    counts = ordinary.sum(-1, keepdims=True)
    n_hidden = np.minimum(counts, np.maximum(1, np.rint(share * counts)))  # (B, 1)
    hidden = random_numbers.argsort(-1).argsort(-1) < n_hidden
    fate = rng.random(ids.shape)
    choices = np.setdiff1d(np.arange(vocab), [mask, *special])
    others = choices[rng.integers(len(choices), size=ids.shape)]
    x = np.where(hidden & (fate < 0.8), mask, np.where(hidden & (fate >= 0.9), others, ids))
    return x, np.where(hidden, ids, IGNORED)
