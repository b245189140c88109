import numpy as np


def softmax(a):
    a = np.exp(a - a.max(-1, keepdims=True))
    return a / a.sum(-1, keepdims=True)


def padding_mask(lengths, n):
    """True on padded positions, shape (batch, n)"""
    return np.arange(n)[None, :] >= np.asarray(lengths)[:, None]


def masked_attention(q, k, v, lengths):
    """q (B,m,d), k (B,n,d), v (B,n,e), lengths (B,) number of valid keys"""
    scores = np.matmul(q, k.transpose(0, 2, 1)) / np.sqrt(q.shape[2])
    mask = padding_mask(lengths, k.shape[1])
    scores = scores + mask[:, None, :]
    return np.matmul(softmax(scores), v)


if __name__ == "__main__":
    r = np.random.RandomState(0)
    print(masked_attention(r.randn(2, 3, 4), r.randn(2, 5, 4), r.randn(2, 5, 6), [5, 2]).shape)
