import torch
from torch import nn


class GPTNeoXAttention(nn.Module):
    def __init__(self, hidden_size=48, num_heads=4, rotary_pct=0.5, max_pos=64):
        super().__init__()
        self.num_heads, self.head_size = num_heads, hidden_size // num_heads
        self.rotary_ndims = int(self.head_size * rotary_pct)
        self.register_buffer("bias", torch.tril(torch.ones(max_pos, max_pos, dtype=torch.bool)), persistent=False)
        inv = 1.0 / (10000 ** (torch.arange(0, self.rotary_ndims, 2).float() / self.rotary_ndims))
        self.register_buffer("inv_freq", inv, persistent=False)
        self.norm_factor = self.head_size ** -0.5
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def _rot(self, x, n):
        t = torch.outer(torch.arange(n, device=x.device, dtype=self.inv_freq.dtype), self.inv_freq)
        emb = torch.cat((t, t), -1)
        xr, xp = x[..., :self.rotary_ndims], x[..., self.rotary_ndims:]
        x1, x2 = xr.chunk(2, -1)
        xr = xr * emb.cos() + torch.cat((-x2, x1), -1) * emb.sin()
        return torch.cat((xr, xp), -1)

    def forward(self, hidden_states):
        b, n, c = hidden_states.shape
        qkv = self.query_key_value(hidden_states)
        # [batch, seq_len, (num_heads * 3 * head_size)] --> [batch, seq_len, num_heads, 3 * head_size]
        qkv = qkv.view(b, n, self.num_heads, 3 * self.head_size)
        query = qkv[..., : self.head_size].permute(0, 2, 1, 3)
        key = qkv[..., self.head_size: 2 * self.head_size].permute(0, 2, 1, 3)
        value = qkv[..., 2 * self.head_size:].permute(0, 2, 1, 3)
        query, key = self._rot(query, n), self._rot(key, n)
        q = query.reshape(b * self.num_heads, n, self.head_size)
        k = key.reshape(b * self.num_heads, n, self.head_size)
        scores = torch.zeros(b * self.num_heads, n, n, dtype=q.dtype, device=q.device)
        scores = torch.baddbmm(scores, q, k.transpose(1, 2), beta=1.0, alpha=self.norm_factor)
        scores = scores.view(b, self.num_heads, n, n)
        scores = torch.where(self.bias[:n, :n], scores, torch.finfo(scores.dtype).min)
        out = torch.matmul(scores.softmax(-1), value)
        return self.dense(out.permute(0, 2, 1, 3).contiguous().view(b, n, c))
