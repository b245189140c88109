"""RMS norm and the rotary turn, written out both ways, equal PyTorch's own operations in output and gradient."""

import pytest
import torch
from torch import nn

from qkv.attention.norms import RMSNorm
from qkv.attention.positions import rotate_halves


@pytest.mark.parametrize("shape", [(3, 5), (2, 1, 7, 8), (0, 4), (1, 1)], ids=str)
def test_rms_norm_equals_torch(shape):
    ours, theirs = RMSNorm(shape[-1], eps=1e-3).double(), nn.RMSNorm(shape[-1], eps=1e-3).double()
    ours.weight.data.normal_()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    a, b = ours(x), theirs(x)
    torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)
    upstream = torch.randn_like(a)
    for actual, expected in zip(
        torch.autograd.grad(a, (x, ours.weight), upstream),
        torch.autograd.grad(b, (x, theirs.weight), upstream),
        strict=True,
    ):
        torch.testing.assert_close(actual, expected, atol=1e-12, rtol=1e-12)


def test_rms_norm_gradcheck_half_precision_and_compiled():
    norm = RMSNorm(6).double()
    assert torch.autograd.gradcheck(norm, torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True))
    x = torch.randn(2, 6, dtype=torch.bfloat16)
    assert norm.bfloat16()(x).dtype == torch.bfloat16
    norm = norm.float()
    x = torch.randn(2, 6)
    torch.testing.assert_close(torch.compile(norm, fullgraph=True, backend="aot_eager")(x), norm(x))


def test_the_turn_equals_the_formula_in_output_and_gradient():
    x = torch.randn(2, 3, 5, 8, dtype=torch.float64, requires_grad=True)
    angle = torch.randn(5, 4, dtype=torch.float64)
    cos, sin = angle.cos(), angle.sin()
    a, b = x.chunk(2, -1)
    expected = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    rotated = rotate_halves(x, cos, sin)
    torch.testing.assert_close(rotated, expected)
    upstream = torch.randn_like(expected)
    for actual, other in zip(
        torch.autograd.grad(rotated, x, upstream), torch.autograd.grad(expected, x, upstream), strict=True
    ):
        torch.testing.assert_close(actual, other)
    strided = x.detach().transpose(1, 2).contiguous().transpose(1, 2)
    torch.testing.assert_close(rotate_halves(strided, cos, sin), expected.detach())
