import torch
import torch.nn as nn


class MaskedMultiHeadAttention(nn.Module):
    """Decoder self-attention, the mask is applied first and the logits are scaled afterwards"""

    def __init__(self, embedding_dim, num_heads, max_len=128):
        super().__init__()
        self.nh, self.hd = num_heads, embedding_dim // num_heads
        self.Wq = nn.Linear(embedding_dim, embedding_dim, bias=False)
        self.Wk = nn.Linear(embedding_dim, embedding_dim, bias=False)
        self.Wv = nn.Linear(embedding_dim, embedding_dim, bias=False)
        self.Wo = nn.Linear(embedding_dim, embedding_dim, bias=False)
        future = torch.triu(torch.ones(max_len, max_len, dtype=torch.bool), 1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x, pad_mask=None):
        # pad_mask (B, T), True at padding
        B, T, C = x.shape
        q = self.Wq(x).reshape(B, T, self.nh, self.hd).transpose(1, 2)
        k = self.Wk(x).reshape(B, T, self.nh, self.hd).transpose(1, 2)
        v = self.Wv(x).reshape(B, T, self.nh, self.hd).transpose(1, 2)
        a = torch.matmul(q, k.transpose(2, 3))
        blocked = self.future[:T, :T][None, None]
        if pad_mask is not None:
            blocked = blocked | pad_mask[:, None, None, :]
        a = torch.where(blocked, torch.full_like(a, float("-inf")), a)
        a = torch.softmax(a * (self.hd**-0.5), dim=-1)
        return self.Wo(torch.matmul(a, v).transpose(1, 2).flatten(2))
