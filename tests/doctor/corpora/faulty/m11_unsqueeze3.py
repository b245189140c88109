import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    """
    x:    (batch, seq_len, d_model)
    mask: (batch, seq_len), 1 = token, 0 = padding
    """

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.depth = d_model // num_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.dense = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        b, n, d = x.size()
        q = self.wq(x).view(b, n, self.num_heads, self.depth).transpose(1, 2)
        k = self.wk(x).view(b, n, self.num_heads, self.depth).transpose(1, 2)
        v = self.wv(x).view(b, n, self.num_heads, self.depth).transpose(1, 2)
        logits = q @ k.transpose(-1, -2) / self.depth**0.5
        if mask is not None:
            mask = mask.unsqueeze(1).unsqueeze(3)
            logits = logits.masked_fill(mask == 0, -1e9)
        out = F.softmax(logits, dim=-1) @ v
        return self.dense(out.transpose(1, 2).reshape(b, n, d))
