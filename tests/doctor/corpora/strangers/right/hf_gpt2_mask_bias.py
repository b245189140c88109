import torch
from torch import nn


def build_4d_mask(attention_mask, dtype):
    """(B, N) 1/0  ->  (B, 1, N, N) additive: 0 where allowed, finfo.min where not"""
    B, N = attention_mask.shape
    causal = torch.ones(N, N, dtype=torch.bool, device=attention_mask.device).tril()
    allowed = causal[None, None] & attention_mask[:, None, None, :].bool()
    return torch.zeros(B, 1, N, N, dtype=dtype, device=attention_mask.device).masked_fill(
        ~allowed, torch.finfo(dtype).min)


class TinyAttention(nn.Module):
    def __init__(self, embed_dim=32, num_heads=4, max_pos=64):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.wpe = nn.Embedding(max_pos, embed_dim)
        self.c_attn = nn.Linear(embed_dim, 3 * embed_dim)
        self.c_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, inputs_embeds, attention_mask):
        position_ids = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
        h = inputs_embeds + self.wpe(position_ids)
        B, N, C = h.shape
        q, k, v = (t.view(B, N, self.num_heads, self.head_dim).transpose(1, 2) for t in self.c_attn(h).split(C, dim=2))
        w = q @ k.transpose(-1, -2) / self.head_dim ** 0.5 + build_4d_mask(attention_mask, q.dtype)
        return self.c_proj((w.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))
