"""Streaming local attention with a fixed buffer (NumPy)."""
import numpy as np


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class StreamAttention:
    """Every token looks at the last `size` tokens (itself included)."""

    def __init__(self, dim, size, seed=0):
        rng = np.random.default_rng(seed)
        self.wq, self.wk, self.wv = (rng.normal(0, dim ** -0.5, (dim, dim)) for _ in range(3))
        self.dim, self.size = dim, size
        self.clear()

    def clear(self):
        self.k = np.zeros((self.size, self.dim))
        self.v = np.zeros((self.size, self.dim))
        self.where = np.full(self.size, -1)
        self.t = 0

    def push(self, x):
        """x: (n, dim), n <= size. Returns (n, dim)."""
        q, k, v = x @ self.wq, x @ self.wk, x @ self.wv
        pos = np.arange(self.t, self.t + len(x))
        self.k[pos % self.size] = k
        self.v[pos % self.size] = v
        self.where[pos % self.size] = pos
        self.t += len(x)
        w = self.where
        keep = (w >= 0) & (w <= pos[:, None]) & (w > pos[:, None] - self.size)
        s = np.where(keep, q @ self.k.T / np.sqrt(self.dim), -1e30)
        return softmax(s) @ self.v


if __name__ == "__main__":
    att = StreamAttention(16, size=8)
    xs = np.random.randn(20, 16)
    print(np.concatenate([att.push(xs[i:i + 4]) for i in range(0, 20, 4)]).shape)
