from typing import Optional

import torch
from torch import nn


def rotate_half(x):
    """(a, b) -> (-b, a)"""
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_rot = (q * cos) + (rotate_half(q) * sin)
    k_rot = (k * cos) + (rotate_half(k) * sin)
    return q_rot, k_rot


class LlamaRotaryEmbedding(nn.Module):
    def __init__(self, dim, max_position_embeddings=2048, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    @torch.no_grad()
    def forward(self, x, position_ids):
        freqs = position_ids[:, :, None].to(x.dtype) * self.inv_freq[None, None, :].to(x.dtype)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos(), emb.sin()


class LlamaAttention(nn.Module):
    """grouped queries, rotary positions"""

    def __init__(self, config, layer_idx: Optional[int] = None):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.hidden_size = config.hidden_size
        self.num_heads = config.num_attention_heads
        self.head_dim = self.hidden_size // self.num_heads
        self.num_key_value_heads = config.num_key_value_heads
        self.num_key_value_groups = self.num_heads // self.num_key_value_heads
        self.scaling = self.head_dim**-0.5

        self.q_proj = nn.Linear(self.hidden_size, self.num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(self.hidden_size, self.num_key_value_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(self.hidden_size, self.num_key_value_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.num_heads * self.head_dim, self.hidden_size, bias=False)
        self.rotary_emb = LlamaRotaryEmbedding(self.head_dim)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: Optional[torch.Tensor] = None,
        position_ids: Optional[torch.LongTensor] = None,
        output_attentions: bool = False,
    ):
        b, n, _ = hidden_states.size()
        if position_ids is None:
            position_ids = torch.arange(n, device=hidden_states.device)[None].expand(b, -1)

        qs = self.q_proj(hidden_states).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        ks = self.k_proj(hidden_states).view(b, n, self.num_key_value_heads, self.head_dim)
        ks = ks.transpose(1, 2)
        vs = self.v_proj(hidden_states).view(b, n, self.num_key_value_heads, self.head_dim)
        vs = vs.transpose(1, 2)

        cos, sin = self.rotary_emb(vs, position_ids)
        qs, ks = apply_rotary_pos_emb(qs, ks, cos, sin)

        ks = ks.repeat_interleave(self.num_key_value_groups, dim=1)
        vs = vs.repeat_interleave(self.num_key_value_groups, dim=1)

        probs = torch.matmul(qs, ks.transpose(2, 3)) * self.scaling
        if attention_mask is not None:
            probs = probs + attention_mask

        probs = nn.functional.softmax(probs, dim=-1, dtype=probs.dtype)
        ctx = torch.matmul(probs, vs)
        ctx = ctx.transpose(1, 2).contiguous().reshape(b, n, self.hidden_size)
        ctx = self.o_proj(ctx)

        if not output_attentions:
            probs = None
        return ctx, probs
