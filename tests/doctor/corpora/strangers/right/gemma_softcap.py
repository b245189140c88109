import torch
from torch import nn


class SoftcapAttention(nn.Module):
    def __init__(self, hidden=48, heads=4, kv_heads=2, query_pre_attn_scalar=None, softcap=50.0):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, hidden // heads
        self.scaling = (query_pre_attn_scalar or self.hd) ** -0.5
        self.softcap = softcap
        self.q_proj = nn.Linear(hidden, heads * self.hd, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * self.hd, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(heads * self.hd, hidden, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, self.heads, self.hd).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.kv_heads, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.kv_heads, self.hd).transpose(1, 2)
        g = self.heads // self.kv_heads
        k = k[:, :, None].expand(-1, -1, g, -1, -1).flatten(1, 2)
        v = v[:, :, None].expand(-1, -1, g, -1, -1).flatten(1, 2)
        s = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        s = self.softcap * torch.tanh(s / self.softcap)   # Gemma 2
        future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        s = s.masked_fill(future, torch.finfo(s.dtype).min)
        p = s.float().softmax(-1).to(q.dtype)
        return self.o_proj((p @ v).transpose(1, 2).reshape(b, n, -1))
