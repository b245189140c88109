# gemma2 flavoured attention
import torch
from torch import nn


class GemmaAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.num_kv_heads = config.num_key_value_heads
        self.head_dim = config.head_dim
        self.hidden_size = config.hidden_size
        self.scaling = config.query_pre_attn_scalar**-0.5
        self.softcap = config.attn_logit_softcapping
        self.qkv_proj = nn.Linear(
            self.hidden_size, (self.num_heads + 2 * self.num_kv_heads) * self.head_dim, bias=False
        )
        self.o_proj = nn.Linear(self.num_heads * self.head_dim, self.hidden_size, bias=False)

    def forward(self, hidden_states, mask=None):
        """mask: additive"""
        b, n, _ = hidden_states.shape
        sizes = [self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim, self.num_kv_heads * self.head_dim]
        xq, xk, xv = self.qkv_proj(hidden_states).split(sizes, dim=-1)
        xq = xq.view(b, n, self.num_heads, self.head_dim)
        xk = xk.view(b, n, self.num_kv_heads, self.head_dim)
        xv = xv.view(b, n, self.num_kv_heads, self.head_dim)
        if self.num_kv_heads != self.num_heads:
            xk = torch.repeat_interleave(xk, self.num_heads // self.num_kv_heads, dim=2)
            xv = torch.repeat_interleave(xv, self.num_heads // self.num_kv_heads, dim=2)
        q, k, v = xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2)
        q = q * self.scaling
        scores = torch.matmul(q, k.transpose(2, 3))
        if self.softcap is not None:
            scores = scores / self.softcap
            scores = torch.tanh(scores)
            scores = scores * self.softcap
        if mask is not None:
            scores = scores + mask
        probs = torch.softmax(scores, dim=-1)
        out = torch.matmul(probs, v).transpose(1, 2).contiguous().view(b, n, -1)
        return self.o_proj(out)
