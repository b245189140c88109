"""
Minimal transformer attention in NumPy.
"""

import numpy as np


def softmax(x):
    """Softmax over the last axis."""
    return np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True)


def scaled_dot_product_attention(q, k, v, mask=None):
    """
    q: (..., seq_len_q, depth), k: (..., seq_len_k, depth), v: (..., seq_len_k, depth_v)
    mask: 1 where attention is allowed, 0 where it is not
    """
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(k.shape[-1])
    if mask is not None:
        scores = np.where(mask == 0, -1e9, scores)
    attention_weights = softmax(scores)
    return np.matmul(attention_weights, v), attention_weights


class MultiHeadAttention:
    def __init__(self, d_model, num_heads, seed=0):
        rng = np.random.default_rng(seed)
        self.num_heads = num_heads
        self.depth = d_model // num_heads
        bound = np.sqrt(6 / (d_model + d_model))
        self.wq, self.wk, self.wv, self.wo = (rng.uniform(-bound, bound, (d_model, d_model)) for _ in range(4))

    def __call__(self, x, mask=None):
        b, n, d = x.shape
        split = lambda t: t.reshape(b, n, self.num_heads, self.depth).transpose(0, 2, 1, 3)
        out, _ = scaled_dot_product_attention(split(x @ self.wq), split(x @ self.wk), split(x @ self.wv), mask)
        return out.transpose(0, 2, 1, 3).reshape(b, n, d) @ self.wo
