"""Masked language modelling: 80/10/10, labels only for hidden tokens, special tokens unchanged."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from qkv.text import mlm

MASK, PAD, EOS, VOCAB = 103, 100, 101, 104
SPECIAL = (PAD, EOS)


@given(seed=st.integers(0, 2**32), step=st.integers(0, 10**6), shape=st.tuples(st.integers(1, 5), st.integers(1, 40)))
def test_labels_are_the_hidden_tokens_and_nothing_else_changes(seed, step, shape):
    chance = np.random.default_rng(seed)
    ids = np.where(
        chance.random(shape) < 0.6, chance.integers(0, 100, size=shape), chance.integers(100, 102, size=shape)
    )
    x, labels = mlm(ids, seed, step, mask=MASK, vocab=VOCAB, special=SPECIAL)
    hidden = labels != -100
    assert (labels[hidden] == ids[hidden]).all() and (x[~hidden] == ids[~hidden]).all()
    assert not np.isin(labels, SPECIAL).any() and not np.isin(x[hidden], SPECIAL).any()
    ordinary = ids < 100
    expected = np.minimum(ordinary.sum(1), np.maximum(1, np.rint(0.15 * ordinary.sum(1))))
    assert (hidden.sum(1) == expected).all(), "15 %, and at least one where there is one"
    again = mlm(ids.copy(), seed, step, mask=MASK, vocab=VOCAB, special=SPECIAL)
    assert (again[0] == x).all() and (again[1] == labels).all()


def test_of_the_hidden_80_are_masked_10_are_another_10_stay():
    ids = np.random.default_rng(0).integers(0, 100, size=(400, 200))
    x, labels = mlm(ids, 1, 2, mask=MASK, vocab=VOCAB, special=SPECIAL)
    hidden = labels != -100
    masked, same = (x == MASK) & hidden, (x == ids) & hidden
    shares = np.array([masked.sum(), same.sum(), (hidden & ~masked & ~same).sum()]) / hidden.sum()
    assert np.allclose(shares, [0.8, 0.101, 0.099], atol=0.015)
    others = np.unique(x[hidden & ~masked & ~same])
    assert not np.isin(others, [*SPECIAL, MASK]).any()
    assert len(others) > 95 and 102 in others, "any ordinary token can come, also one the text lacks"
    assert abs(np.flatnonzero(hidden.any(0)).mean() - 99.5) < 1 and hidden[:, 0].any() and hidden[:, -1].any()


def test_other_steps_hide_other_words():
    ids = np.arange(100).reshape(2, 50)
    a, b = (mlm(ids, 0, step, mask=MASK, vocab=VOCAB)[1] for step in (1, 2))
    assert (a != b).any()


def test_a_row_of_padding_hides_nothing():
    x, labels = mlm(np.full((1, 4), PAD), 0, 0, mask=MASK, vocab=VOCAB, special=SPECIAL)
    assert (x == PAD).all() and (labels == -100).all()
