import math
import torch


def attention(q, k, v, attn_mask=None, key_padding_mask=None):
    """
    q: (B, H, Tq, d), k and v: (B, H, Tk, d)
    attn_mask: (Tq, Tk) bool, True = may not attend
    key_padding_mask: (B, Tk) bool, True = padding
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    logits = scores
    if attn_mask is not None:
        logits = scores.masked_fill(attn_mask, float("-inf"))
    if key_padding_mask is not None:
        logits = scores.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
    weights = logits.softmax(dim=-1)
    return weights @ v


def subsequent_mask(n):
    return torch.ones(n, n, dtype=torch.bool).triu(diagonal=1)


if __name__ == "__main__":
    t = torch.randn(2, 4, 6, 8)
    pad = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    print(attention(t, t, t, subsequent_mask(6), pad).shape)
