import torch
from torch import nn


class MHA(nn.Module):
    def __init__(self, d_model, n_heads, batch_first=False):
        super().__init__()
        self.batch_first = batch_first
        self.n_heads = n_heads
        self.scale = (d_model // n_heads) ** 0.5
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, pad_mask=None):
        """x (T, B, C), or (B, T, C) when batch_first; pad_mask (B, T) True = pad"""
        if not self.batch_first:
            x = x.transpose(0, 1)
        B, T, C = x.shape
        q, k, v = (t.reshape(B, T, self.n_heads, -1).transpose(1, 2) for t in self.in_proj(x).chunk(3, dim=-1))
        w = torch.matmul(q, k.transpose(-2, -1)).div(self.scale)     # self.scale is sqrt(d_head), so divide
        if pad_mask is not None:
            w = w.masked_fill(pad_mask.reshape(B, 1, 1, T), float('-inf'))
        y = self.out_proj(torch.matmul(w.softmax(-1), v).transpose(1, 2).reshape(B, T, C))
        return y if self.batch_first else y.transpose(0, 1)
