import math
import torch
from torch import nn
import torch.nn.functional as F


class RelativeGlobalAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len=64, dropout=0.1):
        super().__init__()
        d_head, remainder = divmod(d_model, num_heads)
        if remainder:
            raise ValueError("incompatible `d_model` and `num_heads`")
        self.max_len, self.d_model, self.num_heads = max_len, d_model, num_heads
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.query = nn.Linear(d_model, d_model)
        self.proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.Er = nn.Parameter(torch.randn(max_len, d_head))
        self.register_buffer("mask", torch.tril(torch.ones(max_len, max_len)).unsqueeze(0).unsqueeze(0))

    def forward(self, x):
        batch_size, seq_len, _ = x.shape
        k_t = self.key(x).reshape(batch_size, seq_len, self.num_heads, -1).permute(0, 2, 3, 1)
        v = self.value(x).reshape(batch_size, seq_len, self.num_heads, -1).transpose(1, 2)
        q = self.query(x).reshape(batch_size, seq_len, self.num_heads, -1).transpose(1, 2)
        Er_t = self.Er[self.max_len - seq_len:, :].transpose(0, 1)
        Srel = self.skew(torch.matmul(q, Er_t))
        attn = (torch.matmul(q, k_t) + Srel) / math.sqrt(q.size(-1))
        attn = attn.masked_fill(self.mask[:, :, :seq_len, :seq_len] == 0, float("-inf"))
        attn = F.softmax(attn, dim=-1)
        out = torch.matmul(attn, v).transpose(1, 2).reshape(batch_size, seq_len, -1)
        return self.dropout(self.proj(out))

    def skew(self, QEr):
        padded = F.pad(QEr, (1, 0))  # one column on the left
        b, h, rows, cols = padded.shape
        return padded.reshape(b, h, cols, rows)[:, :, 1:, :]
