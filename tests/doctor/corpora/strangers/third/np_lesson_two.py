"""Lesson 2: attention with nothing but numpy."""
import numpy as np


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


def attention(queries, keys, values):
    """Scaled dot-product attention.

    queries: (batch, n, d), keys: (batch, m, d), values: (batch, m, d_v)
    """
    scores = np.matmul(queries, np.swapaxes(keys, -1, -2))
    weights = softmax(scores)
    return np.matmul(weights, values), weights


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    q = rng.normal(size=(2, 3, 16))
    k = rng.normal(size=(2, 5, 16))
    v = rng.normal(size=(2, 5, 4))
    out, w = attention(q, k, v)
    print(out.shape, w.sum(-1))
