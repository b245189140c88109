import math

import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.W_q = torch.randn(d_model, d_model, requires_grad=True) / math.sqrt(d_model)
        self.W_k = torch.randn(d_model, d_model, requires_grad=True) / math.sqrt(d_model)
        self.W_v = torch.randn(d_model, d_model, requires_grad=True) / math.sqrt(d_model)
        self.W_o = torch.randn(d_model, d_model, requires_grad=True) / math.sqrt(d_model)

    def forward(self, x):
        b, n, d = x.shape
        q = (x @ self.W_q).reshape(b, n, self.n_heads, self.d_head)
        k = (x @ self.W_k).reshape(b, n, self.n_heads, self.d_head)
        v = (x @ self.W_v).reshape(b, n, self.n_heads, self.d_head)
        a = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(self.d_head)
        y = torch.einsum("bhij,bjhd->bihd", a.softmax(-1), v)
        return y.reshape(b, n, d) @ self.W_o


if __name__ == "__main__":
    layer = SelfAttention(32, 4)
    print(layer(torch.randn(2, 5, 32)).shape, "parameters:", sum(p.numel() for p in layer.parameters()))
