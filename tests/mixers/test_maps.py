"""Every view of a mixing's map against the whole of it, and the whole against what `mix` gives."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv import record
from qkv.i18n import Problem
from qkv.mixers import head_of, mixer_maps

from .cases import by_reference, cases, close


def recorded(case, **options):
    with record() as calls:
        output, _ = case.mix(**options)
    return calls[0], output


@given(case=cases(state=False), data=st.data())
def test_a_row_times_v_is_what_mix_gives(case, data):
    """And the map is the reference's: the whole, any rectangle (places in any order), row and column."""
    keep = torch.tensor(
        data.draw(
            st.lists(
                st.lists(st.booleans(), min_size=case.n, max_size=case.n), min_size=len(case.v), max_size=len(case.v)
            )
        )
    )
    ids = torch.tensor(data.draw(st.lists(st.integers(0, 2), min_size=case.n, max_size=case.n))).expand(len(case.v), -1)
    options = data.draw(st.sampled_from([{}, {"keep": keep}, {"documents": ids}, {"keep": keep, "documents": ids}]))
    call, output = recorded(case, **options)
    item, head = data.draw(st.integers(0, len(case.v) - 1)), data.draw(st.integers(0, case.v.shape[1] - 1))
    small = data.draw(st.integers(1, 6))
    head_map = head_of(call, item, head)
    head_map.__dict__["_chunks"] = mixer_maps._chunk_matrices(head_map.call, small) if case.write is not None else None
    whole = head_map.weights()
    close(whole @ call.v[item, head], output[item, head])
    if not options:
        close(whole, by_reference(case, call.scale).weights[item, head])
    rows, cols = (data.draw(st.lists(st.integers(0, case.n - 1), max_size=2 * case.n)) for _ in range(2))
    close(head_map.weights(rows, cols), whole[rows][:, cols], 1e-12)
    row, key = data.draw(st.integers(0, case.n - 1)), data.draw(st.integers(0, case.n - 1))
    close(head_map.row(row), whole[row], 1e-12)
    close(head_map.column(key), whole[:, key], 1e-12)


@given(
    case=cases(state=False),
    bins=st.integers(1, 20),
    pool=st.sampled_from(mixer_maps.POOLS),
    tile=st.integers(1, 7),
    cut=st.integers(0, 19),
)
def test_pooled_is_the_whole_pooled(case, bins, pool, tile, cut):
    ids = (torch.arange(case.n) >= cut).long().expand(len(case.v), -1)
    head_map = head_of(recorded(case, documents=ids)[0], 0, 0)
    if case.write is not None:
        head_map.__dict__["_chunks"] = mixer_maps._chunk_matrices(head_map.call, tile)
    before = mixer_maps.TILE, mixer_maps.ROWS
    mixer_maps.TILE, mixer_maps.ROWS = (tile, tile // 2 + 1), tile
    try:
        pooled = head_map.pooled(bins, pool)
    finally:
        mixer_maps.TILE, mixer_maps.ROWS = before
    whole, cell = head_map.weights().numpy(), -(-case.n // bins)
    for i in range(len(pooled)):
        for j in range(len(pooled)):
            part = whole[i * cell : (i + 1) * cell, j * cell : (j + 1) * cell]
            largest = max(part.max(), 0) if max(part.max(), 0) >= -part.min() else part.min()
            close(pooled[i, j], {"mean": part.mean(), "sum": part.sum(), "max": np.float64(largest)}[pool])


@pytest.mark.parametrize("delta", [False, True])
def test_a_long_map_is_never_whole(delta):
    """20,000 tokens, strong and weak decays: rows, columns and cells against the map of what is left at the end."""
    torch.manual_seed(0)
    n = 20_000
    q, v = torch.randn(1, 1, n, 4), torch.randn(1, 1, n, 3)
    k = torch.nn.functional.normalize(torch.randn(1, 1, n, 4), dim=-1)
    decay = torch.full((1, 1, n), -1e-4)
    decay[..., 9000:9100] = -30.0
    call, output = recorded(_case(q, k, v, decay, torch.rand(1, 1, n) if delta else None))
    head_map = head_of(call, 0, 0)
    assert not head_map.row(n - 1)[:9000].any() and head_map.row(8999)[:9000].abs().sum() > 0
    for row in (0, 77, 8999, n - 1):
        close(head_map.row(row) @ v[0, 0], output[0, 0, row], 1e-3)
    pooled = head_map.pooled(50, "sum")
    close(pooled[-1].sum(), head_map.weights(slice(n - 400, n)).sum(), 1e-2)
    close(pooled[:, 20].sum(), head_map.weights(None, slice(8000, 8400)).sum(), 1e-2)


def _case(*tensors):
    from .cases import Case

    return Case(*tensors)


def test_bad_arguments_are_refused():
    head_map = head_of(recorded(_case(*[torch.ones(1, 1, 3, 1)] * 3, torch.zeros(1, 1, 3), None))[0], 0, 0)
    with pytest.raises(Problem, match="pool 'median' is not one of"):
        head_map.pooled(2, "median")
    with pytest.raises(Problem, match="bins is 0"):
        head_map.pooled(0)
    with pytest.raises(Problem, match="there is no token 3"):
        head_map.row(3)
