import numpy as np


class MultiHeadAttention:
    def __init__(self, d_model: int, num_heads: int):
        self.d_model = d_model
        self.num_heads = num_heads
        self.depth = d_model // num_heads
        limit = np.sqrt(3.0 / d_model)
        self.wq = np.random.uniform(-limit, limit, (d_model, d_model))
        self.wk = np.random.uniform(-limit, limit, (d_model, d_model))
        self.wv = np.random.uniform(-limit, limit, (d_model, d_model))
        self.wo = np.random.uniform(-limit, limit, (d_model, d_model))

    def split_heads(self, x):
        batch, seq, _ = x.shape
        return x.reshape(batch, self.num_heads, seq, self.depth)

    def __call__(self, q, k, v):
        q = self.split_heads(q @ self.wq)
        k = self.split_heads(k @ self.wk)
        v = self.split_heads(v @ self.wv)

        logits = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(self.depth)
        logits -= logits.max(axis=-1, keepdims=True)
        weights = np.exp(logits)
        weights /= weights.sum(axis=-1, keepdims=True)

        out = np.einsum("bhqk,bhkd->bqhd", weights, v)
        return out.reshape(out.shape[0], out.shape[1], self.d_model) @ self.wo


if __name__ == "__main__":
    x = np.random.randn(2, 6, 32)
    print(MultiHeadAttention(32, 4)(x, x, x).shape)
