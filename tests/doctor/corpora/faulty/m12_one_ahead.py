import numpy as np


def softmax(logits):
    logits = logits - np.max(logits, axis=-1, keepdims=True)
    probs = np.exp(logits)
    return probs / probs.sum(axis=-1, keepdims=True)


def causal_attention(q, k, v):
    """Attention in which position i may look at positions 0..i only.

    q, k, v: [seq, d]
    """
    n, d = q.shape
    mask = np.triu(np.full((n, n), -1e10), k=2)
    return softmax(q @ k.T / np.sqrt(d) + mask) @ v


if __name__ == "__main__":
    x = np.random.default_rng(1).normal(size=(6, 4))
    print(causal_attention(x, x, x).round(3))
