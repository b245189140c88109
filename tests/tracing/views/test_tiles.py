"""A tile of a map is a slice or a pooling of the whole, whatever hides pairs and whichever keys are taken out."""

import numpy as np
import pytest
import torch

from qkv import masks
from qkv.attention.dispatch import Call
from qkv.i18n import Problem
from qkv.mixers import mixer_maps as mixing
from qkv.mixers.calls import Mixing
from qkv.tracing.views import attention_maps
from qkv.tracing.views.layer_scan import LinkFilter, by_tiles
from qkv.tracing.views.token_labels import Tokens
from tests.tracing.study.test_survey import SHAPES, random


def pooled(table, allowed, tall, wide, pool, hidden):
    """Cells of a map by NumPy."""
    down, across = (np.arange(0, size, cell) for size, cell in zip(table.shape, (tall, wide), strict=True))

    def joined(how, values):
        return how.reduceat(how.reduceat(values, down, axis=0), across, axis=1)

    high, low = joined(np.maximum, table), joined(np.minimum, table)
    mean = joined(np.add, table) / joined(np.add, np.ones_like(table))
    pooled_table = mean if pool == "mean" else np.where(-low > high, low, high)
    return np.where(joined(np.logical_or, allowed), pooled_table, hidden)


def rectangles(n, m, rng):
    """The whole, a corner, one cell, and some at random: rows, columns, how tall and how wide a cell is."""
    yield slice(0, n), slice(0, m), 1, 1
    yield slice(0, n), slice(0, m), -(-n // 7), -(-m // 5)
    yield slice(n - 1, n), slice(0, m), 1, m
    for _ in range(3):
        (a, b), (c, d) = (sorted(rng.integers(0, size + 1, 2)) for size in (n, m))
        if a < b and c < d:
            yield slice(int(a), int(b)), slice(int(c), int(d)), int(rng.integers(1, 9)), int(rng.integers(1, 9))


def exact(call, item, head, without=()):
    """Weights in float64 and what may be seen, with keys taken out and the rest of each row summing to 1."""
    head_call = call.only([head], [item]).mapped(torch.Tensor.double)
    n, m = head_call.q.shape[2], head_call.k.shape[2]
    allowed = attention_maps.allowed(head_call, 0, slice(0, n))[0].numpy().copy()
    table = head_call.weights()[0, 0].numpy()
    if len(without):
        allowed[:, without] = False
        scores = head_call.q[0, 0] @ head_call.k[0, 0].T * head_call.scale
        if head_call.softcap is not None:
            scores = (scores / head_call.softcap).tanh() * head_call.softcap
        if head_call.bias is not None:
            scores = scores + head_call.bias.expand(1, 1, n, m)[0, 0]
        scores = scores.masked_fill(~torch.from_numpy(allowed), -torch.inf)
        table = scores.softmax(-1).nan_to_num(0.0).numpy()
    return table, allowed


@pytest.mark.parametrize("size", [None, (40, 50)], ids=["as large as may be", "small pieces"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_tile_is_a_piece_of_the_whole(name, size, monkeypatch):
    if size is not None:
        monkeypatch.setattr(attention_maps, "TILE", size)
    shape = dict(SHAPES[name])
    shape |= {"m": 150} if name == "cached" else {}
    recorded, rng = random(**shape), np.random.default_rng(0)
    call = recorded.calls[recorded.parts[0]][0]
    for item, head in ((0, 1), (1, 2)) if size is None else ((1, 3 % call.n_head),):
        view = recorded.head(0, head, batch=item)
        for without in ((), (0,), (0, 3, view.m - 1)):
            without = tuple(j for j in without if j < view.m)
            table, allowed = exact(call, item, head, without)
            for rows, cols, tall, wide in rectangles(view.n, view.m, rng):
                for pool in ("max", "mean"):
                    tile = view.tile(rows, cols, tall, wide, pool, without).numpy()
                    expected = pooled(table[rows, cols], allowed[rows, cols], tall, wide, pool, -1)
                    np.testing.assert_allclose(tile, expected, atol=1e-5, rtol=0)


def test_what_the_sink_leaves_is_shared_out_exactly():
    """A head that gives all but a millionth to its first token: of the rest, rounding must not be what is seen."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 90, 8)
    q[..., 0], k[..., 0, 0] = 4.0, 14.0
    call = Call(q, k, k, masks.causal(), 8**-0.5)
    table, allowed = exact(call, 0, 0, [0])
    computed = attention_maps.head_of(call, 0, 0)
    assert 0 < 1 - float(computed.weights()[-1, 0]) < 1e-5
    prepared = attention_maps.head_of(call, 0, 0)  # by who looked at all of it
    tokens = Tokens(tuple(f" w{i}" for i in range(90)))
    prepared.know_without([0], by_tiles(call, LinkFilter("decoder", tokens, tokens), 2, 2).linkable[0])
    for each in (computed, prepared):
        tile = each.tile(slice(0, 90), slice(0, 90), without=[0]).numpy()
        np.testing.assert_allclose(np.where(allowed, tile, 0), table, atol=1e-6)
        assert (tile[0] == -1).all() and (tile[:, 0] == -1).all()  # the first query has nothing left to look at


@pytest.mark.parametrize("tile", [2048, 5], ids=["one piece", "small pieces"])
@pytest.mark.parametrize("delta", [False, True], ids=["linear", "delta"])
def test_a_tile_of_a_mixer_is_signed_and_hidden_cells_are_nan(delta, tile, monkeypatch):
    monkeypatch.setattr(mixing, "ROWS", tile)
    rng = torch.Generator().manual_seed(3)
    n = 23
    q, k, v = (torch.randn(1, heads, n, 4, generator=rng) for heads in (1, 1, 2))
    k = torch.nn.functional.normalize(k, dim=-1)
    decay, write = -torch.rand(1, 2, n, generator=rng) / 9, torch.rand(1, 2, n, generator=rng)
    resets = torch.arange(n)[None] == 9
    view = mixing.head_of(Mixing(q, k, v, decay, 0.5, write if delta else None, resets=resets), 0, 1)
    table, allowed = view.weights().double().numpy(), view.allowed().numpy()
    for rows, cols, tall, wide in rectangles(n, n, np.random.default_rng(0)):
        for pool in ("max", "mean"):
            actual = view.tile(rows, cols, tall, wide, pool).numpy()
            expected = pooled(table[rows, cols], allowed[rows, cols], tall, wide, pool, np.nan)
            np.testing.assert_allclose(actual, expected, atol=1e-6, rtol=0)


def test_a_pool_is_the_largest_or_the_mean():
    head = random(n=9).head(0, 0)
    with pytest.raises(Problem, match="pool median is not one of max, mean"):
        head.tile(slice(0, 9), slice(0, 9), pool="median")
