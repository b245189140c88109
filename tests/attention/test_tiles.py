"""Block by block equals all at once."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv import masks
from qkv.attention.oracle import from_qkv
from qkv.attention.tiles import tiles


@given(
    n=st.integers(1, 7),
    m=st.integers(1, 9),
    block=st.integers(1, 10),
    grow=st.sampled_from([1, 300]),
    seed=st.integers(0, 99),
)
def test_equals_plain_attention(n, m, block, grow, seed):
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=(size, 3)) * grow for size in (n, m, m))
    allowed = rng.random((n, m)) < 0.6
    done = tiles(q, k, v, block, masks.dense(allowed))
    np.testing.assert_allclose(done.output, from_qkv(q, k, v, allowed).output, atol=1e-11 * grow, rtol=1e-12)
    assert len(done.tiles) == -(-m // block)


def test_state_after_each_block_is_that_of_the_keys_so_far():
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(s, 4)) for s in (3, 5, 5))
    for tile in tiles(q, k, v, block=2).tiles:
        scores = q @ k[: tile.keys.stop].T / 2
        np.testing.assert_allclose(tile.largest, scores.max(-1))
        np.testing.assert_allclose(tile.total, np.exp(scores - scores.max(-1, keepdims=True)).sum(-1))
        so_far = from_qkv(q, k[: tile.keys.stop], v[: tile.keys.stop]).output
        np.testing.assert_allclose(tile.output / tile.total[:, None], so_far)


def test_shows_itself_in_both_languages():
    done = tiles(np.eye(3), np.eye(3), np.eye(3), 2, masks.causal())
    assert "running sum" in done.show(lang="en") and "累计和" in done.show(lang="zh")


def test_a_hidden_block_is_labelled_also_after_visible_keys():
    done = tiles(np.eye(3), np.eye(3), np.eye(3), 1, masks.causal())
    assert done.show(0, lang="en").count("all hidden by the mask") == 2
    assert done.show(1, lang="en").count("all hidden by the mask") == 1
    assert "all hidden" not in done.show(2, lang="en") and "全部被掩码遮住" in done.show(0, lang="zh")


def test_as_plain_lists():
    done = tiles(np.eye(3), np.eye(3), np.eye(3), 2, ~masks.causal())
    plain = json.loads(json.dumps(done.to_dict(), allow_nan=False))
    assert [tile["keys"] for tile in plain["tiles"]] == [[0, 1], [2]]
    assert plain["tiles"][0]["largest"] == [0.0, None, None] and plain["output"] == done.output.tolist()


def test_what_overflows_is_refused():
    with pytest.raises(ValueError, match="running output at"):
        tiles([[1.0]], [[1.0], [1.0]], [[1e308], [1e308]], 2)


def test_a_block_holds_something():
    with pytest.raises(ValueError, match="block is 0"):
        tiles(np.eye(2), np.eye(2), np.eye(2), 0)
