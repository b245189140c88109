import torch
import torch.nn as nn


class MultiHead(nn.Module):
    """(T, B, D) attention with attn_mask (T, T) additive and key_padding_mask (B, T) bool (True = pad)"""

    def __init__(self, d, h):
        super().__init__()
        self.h, self.dh = h, d // h
        self.in_q, self.in_k, self.in_v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.out = nn.Linear(d, d)

    def forward(self, x, attn_mask=None, key_padding_mask=None):
        T, B, D = x.shape
        q = self.in_q(x).reshape(T, B, self.h, self.dh)
        k = self.in_k(x).reshape(T, B, self.h, self.dh)
        v = self.in_v(x).reshape(T, B, self.h, self.dh)
        s = torch.einsum("ibhd,jbhd->bhij", q, k) / self.dh ** 0.5
        bias = torch.zeros(B, 1, T, T, dtype=x.dtype, device=x.device)
        if key_padding_mask is not None:
            bias = bias.masked_fill(key_padding_mask[:, None, None, :], -1e9)
        if attn_mask is not None:
            bias = attn_mask[None, None].to(x.dtype)
        w = (s + bias).softmax(-1)
        return self.out(torch.einsum("bhij,jbhd->ibhd", w, v).reshape(T, B, D))


if __name__ == "__main__":
    T = 5
    causal = torch.triu(torch.full((T, T), -1e9), 1)
    pad = torch.tensor([[False, False, False, False, False], [True, False, False, False, False]])
    print(MultiHead(24, 3)(torch.randn(T, 2, 24), causal, pad).shape)
