"""Feed-forward activations: compiled and not, they are one function."""

import pytest
import torch

from qkv.model.layers import ACTIVATIONS


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_compiling_changes_no_activation(name):
    x = torch.linspace(-9, 9, 301, dtype=torch.float64, requires_grad=True)
    plain = ACTIVATIONS[name](x)
    (slope,) = torch.autograd.grad(plain.sum(), x)
    traced = torch.compile(ACTIVATIONS[name], backend="eager")(x)  # the compiler's road, without its minutes
    (same_slope,) = torch.autograd.grad(traced.sum(), x)
    torch.testing.assert_close(traced, plain, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(same_slope, slope, rtol=1e-12, atol=1e-14)
