"""Batches: pure functions of (seed, step), windows of the text, and the error for a text that is too short."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text import Dataset
from qkv.text.dataset import Shards
from qkv.text.seeded_rng import dice, mix


@given(sizes=st.lists(st.integers(0, 7), min_size=1, max_size=6), first=st.integers(-45, 45), last=st.integers(-45, 45))
def test_shards_slice_like_a_single_array(sizes, first, last):
    whole = np.arange(sum(sizes))
    shards = Shards(np.split(whole, np.cumsum(sizes)[:-1]))
    assert len(shards) == len(whole)
    assert shards[first:last].tolist() == whole[first:last].tolist()
    assert shards[:].tolist() == whole.tolist()


def test_slices_with_a_step_are_refused():
    with pytest.raises(ValueError, match="without a step, not with 2"):
        Dataset.of(range(9))[::2]


@given(
    seed=st.integers(-(2**63), 2**64), step=st.integers(0, 2**40), context=st.integers(1, 99), batch=st.integers(1, 9)
)
def test_a_batch_depends_on_seed_and_step_alone(seed, step, context, batch):
    tokens = Dataset([np.arange(37), np.arange(37, 100)], [], {})
    x, y = tokens.batch(seed, step, batch, context)
    assert x.shape == y.shape == (batch, context) and x.dtype == y.dtype == np.int64
    assert (y == x + 1).all(), "y follows x, also from one shard into the next"
    tokens.batch(seed + 1, step, batch, context)
    again = Dataset.of(range(100)).batch(seed, step, batch, context)
    assert (again[0] == x).all(), "the same after other draws, and however the text is cut into shards"


def test_batches_differ_by_seed_step_and_row():
    tokens = Dataset.of(range(10_000))
    firsts = [tokens.batch(seed, step, 8, 4)[0][:, 0].tolist() for seed in range(5) for step in range(5)]
    assert len({i for row in firsts for i in row}) > 180, "25 batches of 8 rows hardly meet"


def test_windows_are_drawn_uniformly():
    tokens = Dataset.of(range(11))
    starts = np.concatenate([tokens.batch(0, step, 100, 3)[0][:, 0] for step in range(80)])
    counts = np.bincount(starts, minlength=8)
    assert len(counts) == 8 and counts.min() > 850 and counts.max() < 1150


def test_streams_of_a_step_are_independent():
    draws = {stream: dice(1, 2, stream).integers(2**60) for stream in range(4)}
    assert len(set(draws.values())) == 4
    assert abs(np.corrcoef(dice(1, 2, 0).random(4000), dice(1, 2, 1).random(4000))[0, 1]) < 0.06


def test_mixed_numbers_spread_over_all_bits():
    numbers = {mix(seed, index) for seed in range(30) for index in range(100)}
    assert len(numbers) == 3000
    bits = np.array([[number >> bit & 1 for bit in range(64)] for number in numbers]).mean(0)
    assert (abs(bits - 0.5) < 0.06).all()


@given(size=st.integers(5, 60), batch=st.integers(1, 5), context=st.integers(1, 4), n=st.integers(1, 4))
def test_validation_batches_are_the_same_every_time(size, batch, context, n):
    tokens = Dataset.of([], range(size))
    drawn = list(tokens.validation_batches(batch, context, n))
    assert [x.shape for x, _ in drawn] == [(batch, context)] * n
    assert all((y == x + 1).all() for x, y in drawn)
    starts = np.concatenate([x[:, 0] for x, _ in drawn])
    assert starts[0] == 0 and (np.diff(starts) >= 0).all()
    assert len(starts) == 1 or starts[-1] == size - context - 1, "from the beginning to the end"
    again = list(tokens.validation_batches(batch, context, n))
    assert all((a[0] == b[0]).all() for a, b in zip(drawn, again, strict=True))


@given(size=st.integers(5, 60), batch=st.integers(1, 5), context=st.integers(1, 4))
def test_all_of_validation_side_by_side(size, batch, context):
    xs = [x for x, _ in Dataset.of([], range(size)).validation_batches(batch, context)]
    tokens = np.concatenate([x.ravel() for x in xs])
    assert tokens.tolist() == list(range(len(tokens))) and size - 1 - context < len(tokens) <= size - 1


def test_text_shorter_than_the_context_is_refused():
    tokens = Dataset.of(range(50), range(5))
    tokens.batch(0, 0, 2, 49)
    with pytest.raises(
        ValueError, match=r"train text has 50 tokens, but a context of 50 needs at least 51: .*--context 49$"
    ):
        tokens.batch(0, 0, 2, 50)
    with pytest.raises(ValueError, match="validation text has 5 tokens"):
        next(tokens.validation_batches(2, 64, 1))
    with pytest.raises(ValueError, match="has 0 tokens"):
        Dataset.of([]).batch(0, 0, 1, 8)
    with pytest.raises(ValueError, match="no split 'test': choose train or validation"):
        tokens.batch(0, 0, 2, 8, split="test")
