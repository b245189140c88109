"""Products of a few rows are those of F.linear, whichever way they are asked for."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import qkv
from qkv.generation.decoding import generate
from qkv.model import thin_matmul as products
from qkv.model.thin_matmul import LARGE, SIZES, logits_of, product


@pytest.fixture(autouse=True, params=[True, False], ids=["turned", "not turned"])
def machine(request, monkeypatch):
    """One on which it is quicker the other way round, and one on which it isn't."""
    monkeypatch.setattr(products, "is_transposed_faster", lambda rows, threads: request.param)
    return request.param


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 9, 15, 16, 17, SIZES[-1], SIZES[-1] + 1])
@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_product_equals_linear(rows, bias):
    torch.manual_seed(rows)
    linear = nn.Linear(517, 1031, bias=bias)
    assert linear.weight.numel() >= LARGE
    wide = torch.randn(517, rows + 3)
    for x in (wide.t()[:rows], wide.t()[:rows].contiguous()):  # also as it lies the other way round
        output = product(x, linear.weight, linear.bias)
        exact = F.linear(x.double(), linear.weight.double(), None if linear.bias is None else linear.bias.double())
        assert output.shape == (rows, 1031) and output.is_contiguous()
        assert (output - exact).abs().max() < 1e-5


def test_gradients_and_other_dtypes_use_linear(monkeypatch):
    calls = []
    monkeypatch.setattr(products.torch, "mm", lambda *arguments: calls.append(1))
    x, weight = torch.randn(2, 600), torch.randn(600, 600, requires_grad=True)
    product(x, weight).sum().backward()
    assert weight.grad is not None
    with torch.no_grad():
        product(x.double(), weight.double())
        product(x[:, :5], weight[:, :5])
        product(torch.randn(SIZES[-1] + 1, 600), weight)
    assert not calls


@torch.no_grad()
def test_the_measured_choice_is_used(machine, monkeypatch):
    calls, transposed_product = [], products.transposed_product
    monkeypatch.setattr(
        products, "transposed_product", lambda *arguments: calls.append(1) or transposed_product(*arguments)
    )
    product(torch.randn(2, 600), torch.randn(600, 600))
    assert bool(calls) == machine


@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 3, 11])
def test_cached_generation_equals_uncached(rows):
    """Token by token with matrices that are large enough, against the whole text read anew at each step."""
    torch.manual_seed(0)
    config = qkv.Config(vocab=1200, width=256, n_layer=2, n_head=4, hidden=1200, context=64)
    model = qkv.Transformer(config).eval()
    prompts = torch.randint(1200, (rows, 5)).tolist()
    assert model.head.weight.numel() >= LARGE
    states = torch.randn(rows, 256)
    assert torch.allclose(logits_of(model, states), model.head(states), atol=1e-5)
    assert generate(model, prompts, most=12) == generate(model, prompts, most=12, cache=False)
