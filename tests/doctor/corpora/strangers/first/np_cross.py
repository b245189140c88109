import numpy as np


def softmax(z):
    z = np.exp(z - z.max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)


def cross_attention(inputs, context, p, heads):
    """inputs (b, n, d) look at context (b, m, d); p holds wq, wk, wv, wo of shape (d, d)"""
    b, n, d = inputs.shape
    dh = d // heads

    def to_heads(t):
        return t.reshape(b, n, heads, dh).transpose(0, 2, 1, 3)

    q = to_heads(inputs @ p["wq"])
    k = to_heads(context @ p["wk"])
    v = to_heads(context @ p["wv"])
    a = softmax(q @ k.swapaxes(-1, -2) / dh ** 0.5)
    o = (a @ v).transpose(0, 2, 1, 3).reshape(b, n, d)
    return o @ p["wo"]


if __name__ == "__main__":
    g = np.random.default_rng(7)
    p = {k: g.normal(size=(16, 16)) * 0.25 for k in ("wq", "wk", "wv", "wo")}
    print(cross_attention(g.normal(size=(2, 5, 16)), g.normal(size=(2, 5, 16)), p, 4).shape)
