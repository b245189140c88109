import numpy as np


class NumpyAttention:
    """Single-head attention layer, forward pass only."""

    def __init__(self, dim, rng=None):
        rng = rng or np.random.default_rng(0)
        bound = dim ** -0.5
        self.params = {n: rng.uniform(-bound, bound, (dim, dim)) for n in "qkvo"}
        self.dim = dim
        self.last_weights = None

    def softmax(self, s):
        s = s - s.max(-1, keepdims=True)
        np.exp(s, out=s)
        return s / s.sum(-1, keepdims=True)

    def forward(self, x):
        q = x @ self.params["q"]
        k = x @ self.params["k"]
        v = x @ self.params["v"]
        s = q @ k.transpose(0, 2, 1) / np.sqrt(self.dim)
        self.last_weights = self.softmax(s)
        return s @ v @ self.params["o"]

    __call__ = forward


layer = NumpyAttention(12)
print(layer(np.random.randn(2, 7, 12)).shape)
