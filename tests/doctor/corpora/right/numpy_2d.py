import numpy as np


def softmax(x, axis=-1):
    x = x - np.max(x, axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def self_attention(X, W_q, W_k, W_v):
    """X: (n_tokens, d_model), the three matrices: (d_model, d_k)"""
    Q = X @ W_q
    K = X @ W_k
    V = X @ W_v
    scores = Q @ K.T / np.sqrt(K.shape[1])
    return softmax(scores) @ V


def attention(Q, K, V):
    d_k = Q.shape[-1]
    return softmax(Q @ K.T / np.sqrt(d_k), axis=1) @ V


words = ["the", "cat", "sat", "on", "the", "mat"]
np.random.seed(0)
E = np.random.randn(len(words), 8)
Wq, Wk, Wv = (np.random.randn(8, 4) for _ in range(3))
out = self_attention(E, Wq, Wk, Wv)
print(out.shape)
for w, row in zip(words, out):
    print(f"{w:>5}", row.round(2))
