"""The pieces of a mask cover it exactly, and running them equals the whole."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv import masks
from qkv.attention import pieces

from .cases import oracle


@st.composite
def simple_masks(draw):
    """Bands and padding, which have pieces: (mask, batch, N, M)."""
    batch, n, m = draw(st.integers(1, 3)), draw(st.integers(1, 22)), draw(st.integers(1, 22))
    edge = st.none() | st.integers(0, m + 1)
    rule = draw(st.sampled_from([masks.full(), masks.causal()])) & masks.window(draw(edge), draw(edge))
    if draw(st.booleans()):
        real = np.zeros((batch, m), dtype=bool)
        for item in range(batch):
            start = draw(st.integers(0, m))
            real[item, start : draw(st.integers(start, m))] = True
        rule = rule & masks.padding(real)
    return rule, batch, n, m


@pytest.fixture(params=[1, 3, 128], ids=lambda c: f"chunks of {c}", scope="module")
def chunk(request):
    before, pieces.CHUNK = pieces.CHUNK, request.param
    yield
    pieces.CHUNK = before


@given(simple_masks())
def test_pieces_are_the_mask(chunk, drawn):
    mask, batch, n, m = drawn
    covered = np.zeros((batch, n, m), dtype=bool)
    for piece in pieces.plan(mask, batch, n, m):
        rows, cols = np.arange(*piece.rows)[:, None], np.arange(*piece.cols)[None]
        inside = np.ones((rows.size, cols.size), dtype=bool)
        if piece.causal:
            assert rows.size == cols.size
            inside = np.tril(inside)
        if piece.band is not None:
            low, high = piece.band
            where = rows + m - n
            inside &= (cols >= where - low) if low is not None else True
            inside &= (cols <= where + high) if high is not None else True
        items = range(batch) if piece.item is None else [piece.item]
        for item in items:
            covered[item, slice(*piece.rows), slice(*piece.cols)] |= inside
    np.testing.assert_array_equal(covered, np.broadcast_to(mask.array(n, m, batch=batch)[:, 0], covered.shape))


@given(simple_masks(), st.booleans(), st.integers(0, 99))
def test_running_the_pieces_equals_the_oracle(chunk, drawn, grad, seed):
    mask, batch, n, m = drawn
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(batch, h, size, d, generator=generator, dtype=torch.float64, requires_grad=grad)
        for h, size, d in ((6, n, 4), (2, m, 4), (2, m, 5))
    )
    parts = pieces.plan(mask, batch, n, m)
    output = pieces.run(q, k, v, parts, 0.5, 0.0)
    torch.testing.assert_close(output, oracle(q, k, v, mask=mask, scale=0.5)[0], atol=1e-12, rtol=1e-12)
    if grad and output.requires_grad:
        plain = pieces.sdpa(q, k, v, mask.tensor(n, m, batch=batch), scale=0.5)
        expected = torch.autograd.grad(plain.square().sum(), (q, k, v))
        actual = torch.autograd.grad(output.square().sum(), (q, k, v), allow_unused=True)
        for a, b in zip(actual, expected, strict=True):
            torch.testing.assert_close(torch.zeros_like(b) if a is None else a, b, atol=1e-10, rtol=1e-10)


def test_work_counts_what_is_computed():
    n = 4096
    window = pieces.plan(masks.window(128), 1, n, n)
    assert pieces.count_scores(window, 1) / n**2 < 0.07
    padded = pieces.plan(masks.padding([n // 4, n // 2]), 2, n, n)
    assert pieces.count_scores(padded, 2) == n * (n // 4 + n // 2)


@pytest.mark.parametrize(
    "mask",
    [masks.prefix(2), masks.documents([0, 0, 1, 1]), ~masks.causal(), masks.padding([[True, False, True, True]])],
)
def test_other_masks_have_no_pieces(mask):
    assert pieces.plan(mask, 1, 4, 4) is None
