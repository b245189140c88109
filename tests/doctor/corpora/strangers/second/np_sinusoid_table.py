"""Sinusoidal positions and a NumPy attention that uses them."""
import numpy as np


def sinusoid_table(n_position, d_hid):
    """sin on even channels, cos on odd channels"""
    def angle(pos, i):
        return pos / np.power(10000, 2 * i / d_hid)

    table = np.array([[angle(p, i) for i in range(d_hid)] for p in range(n_position)])
    table[:, 0::2] = np.sin(table[:, 0::2])
    table[:, 1::2] = np.cos(table[:, 1::2])
    return table


def self_attention(x, wq, wk, wv):
    q, k, v = x @ wq, x @ wk, x @ wv
    s = q @ k.T / np.sqrt(q.shape[-1])
    s = np.exp(s - s.max(-1, keepdims=True))
    return s / s.sum(-1, keepdims=True) @ v


if __name__ == "__main__":
    d = 16
    rng = np.random.default_rng(3)
    x = rng.normal(size=(10, d)) + sinusoid_table(10, d)
    print(self_attention(x, *(rng.normal(size=(d, d)) / 4 for _ in range(3))).shape)
