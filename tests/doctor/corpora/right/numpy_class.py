import numpy as np


def softmax(z):
    z = z - z.max(-1, keepdims=True)
    ez = np.exp(z)
    return ez / ez.sum(-1, keepdims=True)


class MultiHeadAttention:
    """Multi-Head Attention in NumPy

    forward only, no training :)
    """

    def __init__(self, d_model=32, num_heads=4, seed=None):
        assert d_model % num_heads == 0
        rng = np.random.default_rng(seed)
        self.d_model = d_model
        self.num_heads = num_heads
        self.depth = d_model // num_heads
        limit = np.sqrt(6 / (d_model + d_model))
        self.W_q = rng.uniform(-limit, limit, (d_model, d_model))
        self.W_k = rng.uniform(-limit, limit, (d_model, d_model))
        self.W_v = rng.uniform(-limit, limit, (d_model, d_model))
        self.W_o = rng.uniform(-limit, limit, (d_model, d_model))
        self.attention_weights = None

    def _split_heads(self, x):
        b, n, _ = x.shape
        return x.reshape(b, n, self.num_heads, self.depth).transpose(0, 2, 1, 3)

    def _merge_heads(self, x):
        b, h, n, d = x.shape
        return x.transpose(0, 2, 1, 3).reshape(b, n, h * d)

    def forward(self, q, k, v, mask=None):
        q = self._split_heads(q @ self.W_q)
        k = self._split_heads(k @ self.W_k)
        v = self._split_heads(v @ self.W_v)
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(self.depth)
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        self.attention_weights = softmax(scores)
        return self._merge_heads(self.attention_weights @ v) @ self.W_o

    __call__ = forward


if __name__ == "__main__":
    mha = MultiHeadAttention(16, 2, seed=1)
    x = np.random.randn(1, 5, 16)
    causal = np.tril(np.ones((5, 5), dtype=bool))
    print(mha(x, x, x, causal).shape)
