"""RoFormer-style self attention."""
import math
import torch
import torch.nn as nn


def apply_rotary(x, cos, sin):
    # (x0, x1, x2, x3, ...) -> (-x1, x0, -x3, x2, ...)
    x_rot = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)
    return x * cos + x_rot * sin


class RoFormerSelfAttention(nn.Module):
    def __init__(self, hidden, heads, max_pos=512):
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)
        theta = 10000.0 ** (-2 * torch.arange(self.size // 2).float() / self.size)
        m_theta = torch.arange(max_pos).float()[:, None] * theta[None, :]
        emb = torch.cat((m_theta, m_theta), dim=-1)
        self.register_buffer("cos_table", emb.cos()[None, None])
        self.register_buffer("sin_table", emb.sin()[None, None])

    def forward(self, x, keep_mask=None):
        b, n, d = x.shape
        q = self.query(x).view(b, n, self.heads, self.size).transpose(1, 2)
        k = self.key(x).view(b, n, self.heads, self.size).transpose(1, 2)
        v = self.value(x).view(b, n, self.heads, self.size).transpose(1, 2)
        cos, sin = self.cos_table[:, :, :n], self.sin_table[:, :, :n]
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.size)
        if keep_mask is not None:
            s = s.masked_fill(~keep_mask[:, None, None, :], float("-inf"))
        return self.dense((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


if __name__ == "__main__":
    print(RoFormerSelfAttention(48, 4)(torch.randn(2, 9, 48)).shape)
