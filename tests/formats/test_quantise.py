"""Weights in 8 bits: each product is the one of the rounded matrix, and a whole model stays close to itself."""

import pytest
import torch
from torch import nn

from qkv import Config, Transformer
from qkv.formats.quantise import MAX_INT8_ROWS, Int8Linear, quantise
from qkv.generation.decoding import generate

SIZES = [(7, 5), (64, 33), (31, 130), (96, 7)]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [1, 3, MAX_INT8_ROWS, MAX_INT8_ROWS + 1, 40])
def test_a_product_is_that_of_the_rounded_matrix(size, bias, rows):
    torch.manual_seed(0)
    linear = nn.Linear(*size, bias=bias)
    packed = Int8Linear(linear)
    x = torch.randn(rows, size[0])
    true = x.double() @ packed.weight.double().T + (0 if linear.bias is None else linear.bias.double())
    exact = rows > MAX_INT8_ROWS or size[0] % 32  # float32 there, bfloat16 in and out elsewhere
    torch.testing.assert_close(packed(x).double(), true, rtol=1e-5 if exact else 1e-2, atol=1e-5 if exact else 2e-2)
    torch.testing.assert_close(packed(x[None]), packed(x)[None])
    torch.testing.assert_close(packed.flat()(x), packed(x))


@pytest.mark.parametrize("size", SIZES)
def test_no_weight_moves_by_more_than_half_a_step(size):
    torch.manual_seed(0)
    linear = nn.Linear(*size)
    with torch.no_grad():
        linear.weight[2] *= 100  # a row of its own size doesn't spoil the others
        linear.weight[3] = 0
    packed = Int8Linear(linear)
    step = linear.weight.abs().amax(1) / 127
    assert ((packed.weight - linear.weight).abs().amax(1) <= 0.51 * step + 0.01 * 127 * step).all()
    assert (packed.weight[3] == 0).all() and packed.integers.dtype == torch.int8


def test_a_model_stays_close_and_speaks():
    torch.manual_seed(0)
    model = Transformer(Config(vocab=97, width=64, n_layer=3, n_head=4, n_kv_head=2)).eval()
    ids = torch.randint(97, (1, 12))
    with torch.no_grad():
        before = model(ids)
        names = {name for name, m in model.named_modules() if type(m) is nn.Linear}
        quantise(model)
        after = model(ids)
    changed = {name for name, m in model.named_modules() if isinstance(m, Int8Linear)}
    assert changed == names and len(names) == 3 * 7 + 1
    assert 0 < (after - before).norm() / before.norm() < 0.02
    tokens = generate(model, ids.tolist(), most=10)[0]
    assert len(tokens) == 10
    slow = generate(model, ids.tolist(), most=1, cache=False)[0]
    assert tokens[:1] == slow
