import numpy as np


def softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def scaled_dot_product_attention(Q, K, V, mask=None):
    """Q (n, d_k), K (m, d_k), V (m, d_v); mask (n, m) with 1 = may look, 0 = may not"""
    d_k = K.shape[-1]
    scores = Q @ K.T / np.sqrt(d_k)
    if mask is not None:
        scores = np.where(mask == 1, scores, -1e9)
    weights = softmax(scores)
    return weights @ V, weights


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    Q, K, V = rng.normal(size=(3, 8)), rng.normal(size=(5, 8)), rng.normal(size=(5, 6))
    out, w = scaled_dot_product_attention(Q, K, V)
    print(out.shape, w.sum(-1))
