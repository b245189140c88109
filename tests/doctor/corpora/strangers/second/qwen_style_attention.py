import torch
import torch.nn.functional as F
from torch import nn


class QwenAttention(nn.Module):
    def __init__(self, hidden_size=72, num_heads=6, num_kv_heads=3):
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.groups = num_heads // num_kv_heads
        self.head_dim = hidden_size // num_heads
        self.q_proj = nn.Linear(hidden_size, num_heads * self.head_dim, bias=True)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=True)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=True)
        self.o_proj = nn.Linear(num_heads * self.head_dim, hidden_size, bias=False)

    def _expand(self, t):
        b, h, n, d = t.shape
        t = t[:, None, :, :, :].expand(b, self.groups, h, n, d)
        return t.reshape(b, h * self.groups, n, d)

    def forward(self, hidden_states):
        b, n, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(hidden_states).view(b, n, self.num_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, n, self.num_kv_heads, self.head_dim).transpose(1, 2)
        out = F.scaled_dot_product_attention(q, self._expand(k), self._expand(v), is_causal=True)
        out = out.transpose(1, 2).reshape(b, n, -1)
        return self.o_proj(out)


attn = QwenAttention()
print(attn(torch.randn(1, 8, 72)).shape)
