"""Copy, reverse, repeat: the right answers, and labels only for predictable tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text import sequence_pairs, sequences
from qkv.text.sequence_tasks import BOS, SEPARATOR, TASKS

sizes = {"batch": st.integers(1, 5), "length": st.integers(1, 9), "vocab": st.integers(4, 20)}
ANSWERS = {"copy": lambda row: row, "reverse": lambda row: row[::-1], "repeat": lambda row: row}


@pytest.mark.parametrize("task", TASKS)
@given(seed=st.integers(0, 99), step=st.integers(0, 10**6), **sizes)
def test_for_a_decoder(task, seed, step, batch, length, vocab):
    x, y = sequences(task, seed, step, batch, length, vocab)
    for row, labels in zip(x, y, strict=True):
        sequence, answer = row[1 : length + 1], labels[labels != -100]
        assert row[0] == BOS and ((sequence >= 3) & (sequence < vocab)).all()
        assert answer.tolist() == ANSWERS[task](sequence).tolist()
        assert (labels[-length:] != -100).all() and len(answer) == length
        assert (row[1:][labels[:-1] != -100] == labels[:-1][labels[:-1] != -100]).all(), "y follows x"
    assert (sequences(task, seed, step, batch, length, vocab)[0] == x).all()


@pytest.mark.parametrize("task", TASKS)
@given(seed=st.integers(0, 99), step=st.integers(0, 10**6), **sizes)
def test_for_an_encoder_and_decoder(task, seed, step, batch, length, vocab):
    pairs = sequence_pairs(task, seed, step, batch, length, vocab)
    sequence, answer = pairs.source[:, :length], pairs.target_out[:, :-1]
    for row, target in zip(sequence, answer, strict=True):
        assert target.tolist() == np.tile(ANSWERS[task](row), 2 if task == "repeat" else 1).tolist()
    assert (pairs.source[:, -1] == SEPARATOR).all() and (pairs.target_out[:, -1] == SEPARATOR).all()
    assert (pairs.target_in[:, 0] == BOS).all() and (pairs.target_in[:, 1:] == answer).all()
    assert (pairs.source_lengths == length + 1).all() and (pairs.target_lengths == pairs.target_in.shape[1]).all()


def test_steps_differ():
    assert (sequences("repeat", 0, 0, 4, 16, 50)[0] != sequences("repeat", 0, 1, 4, 16, 50)[0]).any()


def test_unknown_tasks_and_small_vocabularies_are_refused():
    with pytest.raises(ValueError, match="no task 'sort': choose from copy, reverse, repeat"):
        sequences("sort", 0, 0, 1, 4, 9)
    with pytest.raises(ValueError, match="vocab=3 leaves no symbols"):
        sequences("copy", 0, 0, 1, 4, 3)
