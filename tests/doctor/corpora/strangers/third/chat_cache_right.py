import torch
import torch.nn as nn
import torch.nn.functional as F


class CachedAttention(nn.Module):
    """Causal self-attention that can go on from past keys and values.

    past: None or a pair (k, v), each (B, H, n_past, D). Returns the output and the new pair.
    """

    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.attn = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, past=None):
        B, T, C = x.shape
        q, k, v = self.attn(x).chunk(3, dim=-1)
        q = q.view(B, T, self.n_head, -1).transpose(1, 2)
        k = k.view(B, T, self.n_head, -1).transpose(1, 2)
        v = v.view(B, T, self.n_head, -1).transpose(1, 2)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        M = k.size(2)
        see = torch.ones(T, M, dtype=torch.bool, device=x.device).tril(M - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=see)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.proj(y), (k, v)
