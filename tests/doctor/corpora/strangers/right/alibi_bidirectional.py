import torch
import torch.nn as nn


def alibi_bias(n_heads, n):
    # slopes 2^(-8/n), 2^(-16/n), ...
    slopes = 2.0 ** (-8.0 * torch.arange(1, n_heads + 1) / n_heads)
    pos = torch.arange(n)
    return -slopes.view(-1, 1, 1) * (pos[None, :] - pos[:, None]).abs()


class EncoderAlibi(nn.Module):
    def __init__(self, width=64, n_heads=8):
        super().__init__()
        self.n_heads = n_heads
        self.q_lin = nn.Linear(width, width)
        self.k_lin = nn.Linear(width, width)
        self.v_lin = nn.Linear(width, width)
        self.out_lin = nn.Linear(width, width)

    def forward(self, x, mask=None):
        """mask (B, N): 1 for words, 0 for padding"""
        bs, n, width = x.shape
        dim_per_head = width // self.n_heads
        q = self.q_lin(x).view(bs, n, self.n_heads, dim_per_head).transpose(1, 2) / dim_per_head ** 0.5
        k = self.k_lin(x).view(bs, n, self.n_heads, dim_per_head).transpose(1, 2)
        v = self.v_lin(x).view(bs, n, self.n_heads, dim_per_head).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(2, 3)) + alibi_bias(self.n_heads, n).to(x)
        if mask is not None:
            mask = (mask == 0).view(bs, 1, 1, n).expand_as(scores)
            scores = scores.masked_fill(mask, -float("inf"))
        context = torch.matmul(scores.softmax(-1), v)
        return self.out_lin(context.transpose(1, 2).contiguous().view(bs, n, width))
