import math
import torch
from torch import nn


def build_alibi_tensor(attention_mask, num_heads, dtype):
    batch_size, seq_length = attention_mask.shape
    closest = 2 ** math.floor(math.log2(num_heads))
    base = torch.tensor(2 ** (-(2 ** -(math.log2(closest) - 3))), dtype=torch.float32)
    powers = torch.arange(1, 1 + closest, dtype=torch.int32)
    slopes = torch.pow(base, powers)
    if closest != num_heads:
        extra_base = torch.tensor(2 ** (-(2 ** -(math.log2(2 * closest) - 3))), dtype=torch.float32)
        remaining = min(closest, num_heads - closest)
        extra_powers = torch.arange(1, 1 + 2 * remaining, 2, dtype=torch.int32)
        slopes = torch.cat([slopes, torch.pow(extra_base, extra_powers)], dim=0)
    arange_tensor = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, :]
    alibi = slopes[..., None] * arange_tensor
    return alibi.reshape(batch_size * num_heads, 1, seq_length).to(dtype)


class BloomAttention(nn.Module):
    def __init__(self, hidden_size=48, num_heads=6):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, hidden_size // num_heads
        self.inv_norm_factor = 1.0 / math.sqrt(self.head_dim)
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size, bias=True)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, attention_mask):
        """attention_mask (B, N): 1 real, 0 pad"""
        B, N, C = hidden_states.shape
        fused = self.query_key_value(hidden_states).view(B, N, self.num_heads, 3, self.head_dim)
        q, k, v = fused[..., 0, :], fused[..., 1, :], fused[..., 2, :]
        q = q.transpose(1, 2).reshape(B * self.num_heads, N, self.head_dim)
        k = k.permute(0, 2, 3, 1).reshape(B * self.num_heads, self.head_dim, N)
        v = v.transpose(1, 2).reshape(B * self.num_heads, N, self.head_dim)
        alibi = build_alibi_tensor(attention_mask, self.num_heads, hidden_states.dtype)
        scores = alibi.baddbmm(batch1=q, batch2=k, beta=1.0, alpha=self.inv_norm_factor)
        scores = scores.view(B, self.num_heads, N, N)
        keep = torch.ones(N, N, dtype=torch.bool, device=scores.device).tril() & attention_mask[:, None, None].bool()
        scores = torch.masked_fill(scores, ~keep, torch.finfo(scores.dtype).min)
        p = scores.softmax(dim=-1).view(B * self.num_heads, N, N)
        ctx = torch.bmm(p, v).view(B, self.num_heads, N, self.head_dim).transpose(1, 2).reshape(B, N, C)
        return self.dense(ctx)
