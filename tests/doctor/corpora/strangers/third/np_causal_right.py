import numpy as np


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def causal_multihead(x, w_q, w_k, w_v, w_o, n_heads):
    """x: (n, c); each w: (c, c). A token sees itself and what came before."""
    n, c = x.shape
    d = c // n_heads
    q = (x @ w_q).reshape(n, n_heads, d).transpose(1, 0, 2)
    k = (x @ w_k).reshape(n, n_heads, d).transpose(1, 0, 2)
    v = (x @ w_v).reshape(n, n_heads, d).transpose(1, 0, 2)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(d)
    future = np.triu(np.ones((n, n)), k=1).astype(bool)
    scores = np.where(future, -np.inf, scores)
    out = softmax(scores) @ v
    return out.transpose(1, 0, 2).reshape(n, c) @ w_o
