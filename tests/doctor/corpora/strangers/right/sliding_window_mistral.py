import torch
import torch.nn as nn
import torch.nn.functional as F


def sliding_mask(n, window, device=None):
    i = torch.arange(n, device=device)[:, None]
    j = torch.arange(n, device=device)[None, :]
    # True where attention is allowed: causal and not further back than window - 1
    return (j <= i) & (i - j < window)


class SlidingWindowAttention(nn.Module):
    def __init__(self, dim: int, n_heads: int, window: int):
        super().__init__()
        self.n_heads, self.window = n_heads, window
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (w(x).view(B, T, self.n_heads, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=sliding_mask(T, self.window, x.device))
        return self.wo(y.transpose(1, 2).reshape(B, T, D))


if __name__ == "__main__":
    print(sliding_mask(6, 3).int())
    print(SlidingWindowAttention(32, 4, 3)(torch.randn(1, 6, 32)).shape)
