import numpy as np


class NumpyMultiHead:
    """Multi-head self-attention, forward only.  x: (seq, d_model)"""

    def __init__(self, d_model, heads, seed=0):
        rng = np.random.default_rng(seed)
        self.heads, self.dk = heads, d_model // heads
        s = 1 / np.sqrt(d_model)
        self.Wq = rng.uniform(-s, s, (heads, d_model, self.dk))
        self.Wk = rng.uniform(-s, s, (heads, d_model, self.dk))
        self.Wv = rng.uniform(-s, s, (heads, d_model, self.dk))

    @staticmethod
    def softmax(a):
        a = np.exp(a - a.max(-1, keepdims=True))
        return a / a.sum(-1, keepdims=True)

    def __call__(self, x):
        q, k, v = x @ self.Wq, x @ self.Wk, x @ self.Wv          # (h, n, dk)
        w = self.softmax(q @ k.transpose(0, 2, 1) / np.sqrt(self.dk))
        z = w @ v                                                # (h, n, dk)
        return z.transpose(1, 0, 2).reshape(len(x), -1)          # (n, d_model)


if __name__ == "__main__":
    print(NumpyMultiHead(32, 4)(np.random.randn(6, 32)).shape)
