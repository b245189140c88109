import math
import torch
import torch.nn.functional as F


def scaled_dot_product(q, k, v, mask=None, p=0.0, training=False):
    """
    q, k, v : (batch, heads, length, depth)
    mask    : bool, True = keep
    p       : attention dropout
    """
    logits = q @ k.transpose(-1, -2)
    logits = logits / math.sqrt(q.shape[-1])
    if mask is not None:
        logits = logits.masked_fill(~mask, -float("inf"))
    logits = F.dropout(logits, p=p, training=training)
    weights = F.softmax(logits, dim=-1)
    return weights @ v


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


if __name__ == "__main__":
    t = torch.randn(2, 4, 6, 8)
    print(scaled_dot_product(t, t, t, causal(6)).shape)
