"""A fully masked row has output, weights and gradient 0; every other row of weights sums to 1. On every path."""

import pytest
import torch
from hypothesis import given

from qkv import MultiHeadAttention, SelfAttention, attend, masks
from qkv.attention import LatentAttention
from tests.attention.cases import cases

PATHS = {
    "plain": {"kernel": "plain"},
    "sdpa": {"kernel": "sdpa"},
    "auto": {},
    "bias": {"bias": torch.zeros(1)},
    "softcap": {"softcap": 5.0},
}


@pytest.mark.parametrize("path", PATHS)
@given(case=cases())
def test_nothing_to_see_is_zero(path, case):
    batch, heads, n, _ = case.q.shape
    allowed = case.mask.tensor(n, case.k.shape[2], batch=batch, heads=heads).expand(batch, heads, n, case.k.shape[2])
    dead = ~allowed.any(-1)
    leaves = case.leaves()
    output = attend(*leaves, case.mask, **PATHS[path])
    assert (output[dead] == 0).all()
    output.square().sum().backward()
    for leaf in leaves:
        assert torch.isfinite(leaf.grad).all()
    assert (leaves[0].grad[dead] == 0).all()
    _, weights = attend(*case.qkv, case.mask, weights=True, **PATHS[path])
    assert (weights[dead] == 0).all() and (weights[~allowed] == 0).all()
    torch.testing.assert_close(weights.sum(-1), (~dead).double())


MODULES = {
    "SelfAttention": lambda: SelfAttention(12),
    "MultiHeadAttention": lambda: MultiHeadAttention(12, 3, position="rotary"),
    "grouped": lambda: MultiHeadAttention(12, 6, 2, qk_norm="rms"),
    "alibi": lambda: MultiHeadAttention(12, 3, position="alibi"),
    "LatentAttention": lambda: LatentAttention(12, 3, rank=5, head_width=4, rope_width=2),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", MODULES)
def test_modules_stay_finite_with_an_empty_sentence(name, dtype):
    module = MODULES[name]().to(dtype)
    x = torch.randn(2, 5, 12, dtype=dtype, requires_grad=True)
    for rule in (masks.padding([5, 0]), masks.padding([0, 0]), masks.causal() & ~masks.window(0)):
        output = module(x, mask=rule)
        output = output[0] if isinstance(output, tuple) else output
        module.zero_grad()
        output.square().sum().backward()
        assert torch.isfinite(output).all() and torch.isfinite(x.grad).all()
        assert all(p.grad is None or torch.isfinite(p.grad).all() for p in module.parameters())
