import math
import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, nx=48, n_ctx=64, n_head=4):
        super().__init__()
        self.n_head = n_head
        self.split_size = nx
        self.register_buffer("b", torch.tril(torch.ones(n_ctx, n_ctx)).view(1, 1, n_ctx, n_ctx))
        self.c_attn = nn.Linear(nx, 3 * nx)
        self.c_proj = nn.Linear(nx, nx)

    def _attn(self, q, k, v):
        w = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(v.size(-1))
        n = w.size(-1)
        mask = self.b[:, :, :n, :n]
        w = w * mask + -1000 * (1 - mask)
        return torch.matmul(torch.softmax(w, dim=-1), v)

    def split_heads(self, x):
        return x.view(*x.size()[:-1], self.n_head, x.size(-1) // self.n_head).permute(0, 2, 1, 3)

    def merge_heads(self, x):
        x = x.permute(0, 2, 1, 3).contiguous()
        return x.view(*x.size()[:-2], x.size(-2) * x.size(-1))

    def forward(self, x):
        q, k, v = self.c_attn(x).split(self.split_size, dim=2)
        a = self._attn(self.split_heads(q), self.split_heads(k), self.split_heads(v))
        return self.c_proj(self.merge_heads(a))


if __name__ == "__main__":
    print(Attention()(torch.randn(2, 9, 48)).shape)
