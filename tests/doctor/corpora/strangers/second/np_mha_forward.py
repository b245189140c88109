"""Multi-head attention in NumPy (forward pass only)."""
import numpy as np


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


def multi_head_attention(x, Wq, Wk, Wv, Wo, n_heads):
    """x: (batch, seq, d_model); weights: (d_model, d_model)."""
    b, n, d = x.shape
    d_k = d // n_heads

    def heads(t):
        # one slab per head: (batch, heads, seq, d_k)
        return t.reshape(b, n_heads, n, d_k)

    q, k, v = heads(x @ Wq), heads(x @ Wk), heads(x @ Wv)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d_k)
    ctx = softmax(scores) @ v
    ctx = ctx.transpose(0, 2, 1, 3).reshape(b, n, d)
    return ctx @ Wo


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    d = 24
    ws = [rng.normal(size=(d, d)) / np.sqrt(d) for _ in range(4)]
    print(multi_head_attention(rng.normal(size=(2, 5, d)), *ws, n_heads=4).shape)
