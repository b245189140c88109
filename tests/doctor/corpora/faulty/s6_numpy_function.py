"""Scaled dot-product attention with NumPy only."""

import numpy as np


def stable_softmax(z):
    z = z - np.max(z, axis=-1, keepdims=True)
    numerator = np.exp(z)
    return numerator / np.sum(numerator, axis=-1, keepdims=True)


def scaled_dot_product_attention(queries, keys, values):
    d_k = keys.shape[-1]
    weights = stable_softmax(queries @ keys.swapaxes(-2, -1))
    weights = weights / np.sqrt(d_k)
    return weights @ values


def demo():
    rng = np.random.default_rng(0)
    q = rng.normal(size=(3, 4))
    k = rng.normal(size=(5, 4))
    v = rng.normal(size=(5, 4))
    print(scaled_dot_product_attention(q, k, v))


if __name__ == "__main__":
    demo()
