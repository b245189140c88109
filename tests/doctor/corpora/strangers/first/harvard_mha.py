import math
import torch
import torch.nn as nn


def subsequent_mask(size):
    "Mask out subsequent positions."
    attn_shape = (1, size, size)
    return torch.triu(torch.ones(attn_shape), diagonal=1).type(torch.uint8) == 0


def attention(query, key, value, mask=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, 1e-9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model):
        super().__init__()
        self.d_k = d_model // h
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.attn = None

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        n = query.size(0)
        q = self.q(query).view(n, -1, self.h, self.d_k).transpose(1, 2)
        k = self.k(key).view(n, -1, self.h, self.d_k).transpose(1, 2)
        v = self.v(value).view(n, -1, self.h, self.d_k).transpose(1, 2)
        x, self.attn = attention(q, k, v, mask)
        return self.o(x.transpose(1, 2).reshape(n, -1, self.h * self.d_k))


if __name__ == "__main__":
    x = torch.randn(2, 6, 32)
    print(MultiHeadedAttention(4, 32)(x, x, x, subsequent_mask(6)).shape)
