import numpy as np


def softmax(x):
    """numerically stable softmax"""
    e_x = np.exp(x - np.max(x, axis=0, keepdims=True))
    return e_x / e_x.sum(axis=0, keepdims=True)


def attention(q, k, v):
    # q (B, n, d)  k (B, m, d)  v (B, m, dv)
    d = q.shape[-1]
    logits = np.einsum("bnd,bmd->bnm", q, k) / np.sqrt(d)
    w = softmax(logits)
    return np.einsum("bnm,bmv->bnv", w, v)


if __name__ == "__main__":
    np.random.seed(1)
    q = np.random.randn(3, 4, 8)
    k = np.random.randn(3, 6, 8)
    v = np.random.randn(3, 6, 10)
    print(attention(q, k, v).shape)
