import numpy as np


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def decoder_head(x, wq, wk, wv):
    """Masked self-attention of one decoder head: each word sees the words up to and including itself.

    x: (batch, n, d), w*: (d, e)
    """
    q, k, v = x @ wq, x @ wk, x @ wv
    n, e = q.shape[1], q.shape[2]
    scores = np.einsum("bie,bje->bij", q, k) / np.sqrt(e)
    see = np.tri(n, k=-1, dtype=bool)
    scores = np.where(see, scores, -1e9)
    return softmax(scores) @ v


if __name__ == "__main__":
    g = np.random.default_rng(5)
    w = [g.normal(size=(8, 4)) for _ in range(3)]
    print(decoder_head(g.normal(size=(2, 6, 8)), *w).shape)
