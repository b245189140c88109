import torch
import torch.nn as nn


class FlexibleAttention(nn.Module):
    """Bidirectional by default; pass causal=True for a decoder."""

    def __init__(self, embed_dim, num_heads, causal=False, bias=True):
        super().__init__()
        self.causal = causal
        self.num_heads = num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.scaling = (embed_dim // num_heads) ** -0.5

    def forward(self, query, key=None, value=None, key_padding_mask=None, need_weights=False):
        key = query if key is None else key
        value = key if value is None else value
        B, Lq, E = query.shape
        Lk = key.shape[1]
        q = (self.q_proj(query) * self.scaling).view(B, Lq, self.num_heads, -1).transpose(1, 2)
        k = self.k_proj(key).view(B, Lk, self.num_heads, -1).transpose(1, 2)
        v = self.v_proj(value).view(B, Lk, self.num_heads, -1).transpose(1, 2)
        logits = q @ k.transpose(-2, -1)
        blocked = torch.zeros(B, 1, Lq, Lk, dtype=torch.bool, device=query.device)
        if key_padding_mask is not None:
            blocked |= key_padding_mask.view(B, 1, 1, Lk)
        if self.causal:
            blocked |= torch.ones(Lq, Lk, dtype=torch.bool, device=query.device).triu(1 + Lk - Lq)
        attn = logits.masked_fill(blocked, float("-inf")).softmax(dim=-1)
        out = self.out_proj((attn @ v).transpose(1, 2).reshape(B, Lq, E))
        return (out, attn) if need_weights else out
