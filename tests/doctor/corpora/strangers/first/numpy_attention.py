"""Scaled dot-product attention written with nothing but NumPy."""
import numpy as np


def softmax(z, axis=-1):
    z = z - z.max(axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


def scaled_dot_product_attention(Q, K, V, mask=None):
    """
    Q: (..., n_q, d_k)   K: (..., n_k, d_k)   V: (..., n_k, d_v)
    mask: (..., n_q, n_k), True where attention is allowed
    """
    d_k = Q.shape[-1]
    scores = np.matmul(Q, np.swapaxes(K, -1, -2))
    scores = scores / np.power(d_k, -0.5)
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    weights = softmax(scores, axis=-1)
    return np.matmul(weights, V), weights


rng = np.random.default_rng(0)
Q = rng.normal(size=(2, 5, 8))
K = rng.normal(size=(2, 6, 8))
V = rng.normal(size=(2, 6, 8))
out, w = scaled_dot_product_attention(Q, K, V)
print(out.shape, w.sum(-1))
