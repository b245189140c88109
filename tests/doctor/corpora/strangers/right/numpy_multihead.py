import numpy as np


class MultiHeadAttention:
    def __init__(self, d_model, num_heads, seed=0):
        assert d_model % num_heads == 0
        rng = np.random.RandomState(seed)
        s = 1.0 / np.sqrt(d_model)
        self.h = num_heads
        self.d_k = d_model // num_heads
        self.W_q = rng.uniform(-s, s, (d_model, d_model))
        self.W_k = rng.uniform(-s, s, (d_model, d_model))
        self.W_v = rng.uniform(-s, s, (d_model, d_model))
        self.W_o = rng.uniform(-s, s, (d_model, d_model))

    def split_heads(self, x):
        b, n, _ = x.shape
        return x.reshape(b, n, self.h, self.d_k).transpose(0, 2, 1, 3)

    def combine_heads(self, x):
        b, h, n, d = x.shape
        return x.transpose(0, 2, 1, 3).reshape(b, n, h * d)

    def __call__(self, q, k, v, mask=None):
        q = self.split_heads(q @ self.W_q)
        k = self.split_heads(k @ self.W_k)
        v = self.split_heads(v @ self.W_v)
        logits = np.matmul(q, k.transpose(0, 1, 3, 2)) / np.sqrt(self.d_k)
        if mask is not None:
            logits = logits + (1.0 - mask) * -1e9   # mask: 1 keep, 0 drop, broadcastable to (b, h, n, m)
        logits = logits - logits.max(axis=-1, keepdims=True)
        w = np.exp(logits)
        w = w / w.sum(axis=-1, keepdims=True)
        return self.combine_heads(np.matmul(w, v)) @ self.W_o


mha = MultiHeadAttention(12, 3)
x = np.random.randn(2, 5, 12)
print(mha(x, x, x, np.tril(np.ones((5, 5)))).shape)
