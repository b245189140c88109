"""Bahdanau's score, against the formula written as loops."""

import numpy as np
import torch

from qkv import masks
from qkv.attention import AdditiveAttention


def test_equals_the_formula():
    attention = AdditiveAttention(6, 8, 5).double()
    x, memory = torch.randn(2, 3, 6, dtype=torch.float64), torch.randn(2, 4, 8, dtype=torch.float64)
    output, weights = attention(x, memory, masks.padding([4, 2]))
    w_q, w_k, w = (p.weight.detach().numpy() for p in (attention.q, attention.k, attention.score))
    for b, real in enumerate([4, 2]):
        for i in range(3):
            scores = [w[0] @ np.tanh(w_q @ x[b, i].numpy() + w_k @ memory[b, j].numpy()) for j in range(real)]
            shares = np.exp(scores) / np.exp(scores).sum()
            np.testing.assert_allclose(weights[b, i].detach().numpy(), [*shares, *[0.0] * (4 - real)], atol=1e-12)
            np.testing.assert_allclose(output[b, i].detach().numpy(), shares @ memory[b, :real].numpy(), atol=1e-12)


def test_nothing_to_see_is_zero_with_a_gradient():
    attention = AdditiveAttention(6, 8, 5)
    memory = torch.randn(2, 4, 8, requires_grad=True)
    output, weights = attention(torch.randn(2, 3, 6), memory, masks.padding([4, 0]))
    output.sum().backward()
    assert (output[1] == 0).all() and (weights[1] == 0).all() and torch.isfinite(memory.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in attention.parameters())
