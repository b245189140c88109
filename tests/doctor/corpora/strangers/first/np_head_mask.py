import numpy as np


def split(x, h):
    b, n, d = x.shape
    return x.reshape(b, n, h, d // h).transpose(0, 2, 1, 3)


def mha(x, W, h, keep=None):
    """Multi-head attention in NumPy.

    x: (b, n, d); W: dict of four (d, d) matrices; keep: (b, n), 1 for tokens, 0 for padding
    """
    b, n, d = x.shape
    q, k, v = (split(x @ W[c], h) for c in "qkv")
    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d // h)
    if keep is not None:
        s = np.where(keep[:, None, :] == 1, s, -1e9)
    s = s - s.max(axis=-1, keepdims=True)
    p = np.exp(s)
    p /= p.sum(axis=-1, keepdims=True)
    return (p @ v).transpose(0, 2, 1, 3).reshape(b, n, d) @ W["o"]


rng = np.random.default_rng(1)
W = {c: rng.normal(size=(12, 12)) / 12 ** 0.5 for c in "qkvo"}
x = rng.normal(size=(3, 5, 12))
keep = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])
print(mha(x, W, 3, keep).shape)
