import torch
import torch.nn as nn
import torch.nn.functional as F


class KVAttention(nn.Module):
    """Causal attention; `cache` is a (k, v) pair from the previous call."""

    def __init__(self, n_embd=64, n_head=8):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x, cache=None):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=-1)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        if cache is not None:
            k = torch.cat((cache[0], k), dim=2)
            v = torch.cat((cache[1], v), dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y), (k, v)


if __name__ == "__main__":
    layer = KVAttention().eval()
    y, cache = layer(torch.randn(1, 5, 64))
    y, cache = layer(torch.randn(1, 1, 64), cache)
    print(y.shape, cache[0].shape)
