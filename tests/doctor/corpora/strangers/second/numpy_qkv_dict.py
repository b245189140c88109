import numpy as np


def init(d, seed=0):
    r = np.random.default_rng(seed)
    return {n: r.standard_normal((d, d)) / np.sqrt(d) for n in ("q", "k", "v", "o")}


def self_attention(x, w, heads=2):
    """x: (batch, n, d) -> (batch, n, d)"""
    b, n, d = x.shape

    def project(name):
        return (x @ w[name]).reshape(b, n, heads, d // heads).transpose(0, 2, 1, 3)

    q, k, v = project("q"), project("k"), project("k")
    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d // heads)
    p = np.exp(s - s.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    return (p @ v).transpose(0, 2, 1, 3).reshape(b, n, d) @ w["o"]


if __name__ == "__main__":
    print(self_attention(np.random.randn(2, 5, 12), init(12)).shape)
