import torch
import torch.nn as nn
import torch.nn.functional as F


def prefix_lm_mask(n, prefix_lens):
    """(B, 1, n, n) bool, True = visible.  prefix tokens are visible to everybody, the rest is causal."""
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    prefix = torch.arange(n)[None, :] < prefix_lens[:, None]
    return (causal[None] | prefix[:, None, :])[:, None]


class PrefixLMAttention(nn.Module):
    def __init__(self, d_model=32, n_head=4):
        super().__init__()
        self.n_head = n_head
        self.wqkv = nn.Linear(d_model, d_model * 3)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, x, prefix_lens):
        B, N, D = x.shape
        q, k, v = self.wqkv(x).reshape(B, N, 3, self.n_head, -1).transpose(1, 3).unbind(2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=prefix_lm_mask(N, prefix_lens).to(x.device))
        return self.wo(y.transpose(1, 2).reshape(B, N, D))
