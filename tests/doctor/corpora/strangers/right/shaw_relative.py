import math
import torch
import torch.nn as nn


class RelativeSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, max_rel=4):
        super().__init__()
        self.h, self.d, self.max_rel = n_heads, d_model // n_heads, max_rel
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.rel_k = nn.Embedding(2 * max_rel + 1, self.d)
        self.rel_v = nn.Embedding(2 * max_rel + 1, self.d)

    def forward(self, x, mask=None):
        B, L, D = x.shape
        q, k, v = (W(x).view(B, L, self.h, self.d).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        pos = torch.arange(L, device=x.device)
        rel = (pos[None, :] - pos[:, None]).clamp(-self.max_rel, self.max_rel) + self.max_rel  # j - i
        rk, rv = self.rel_k(rel), self.rel_v(rel)               # (L, L, d)
        e = q @ k.transpose(-1, -2) + torch.einsum('bhid,ijd->bhij', q, rk)
        e = e / math.sqrt(self.d)
        if mask is not None:                                    # (B, L) bool, True = keep
            e = e.masked_fill(~mask[:, None, None, :], float('-inf'))
        a = e.softmax(-1)
        z = a @ v + torch.einsum('bhij,ijd->bhid', a, rv)
        return self.W_o(z.transpose(1, 2).reshape(B, L, D))
