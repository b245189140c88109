import numpy as np


def look_ahead_mask(n):
    """1 for the positions a token is allowed to see, 0 for the future."""
    return 1 - np.triu(np.ones((n, n)), k=1)


def softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


def attention(q, k, v, mask=None):
    """q, k, v: (batch, n, d)"""
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(k.shape[-1])
    if mask is not None:
        logits = logits + mask * -1e9
    return softmax(logits) @ v


if __name__ == "__main__":
    x = np.random.default_rng(3).normal(size=(2, 5, 8))
    print(attention(x, x, x, look_ahead_mask(5)).round(2)[0])
