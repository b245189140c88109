import numpy as np


def windowed_attention(q, k, v, window):
    """Causal sliding-window attention: position t uses the last `window` positions, t itself included.

    q, k: (n, d)   v: (n, e)
    """
    n, d = q.shape
    out = np.zeros((n, v.shape[1]))
    for t in range(n):
        start = max(0, t - window)
        ks, vs = k[start:t + 1], v[start:t + 1]
        s = ks @ q[t] / np.sqrt(d)
        s = np.exp(s - s.max())
        out[t] = (s / s.sum()) @ vs
    return out


if __name__ == "__main__":
    r = np.random.default_rng(0)
    print(windowed_attention(r.normal(size=(10, 4)), r.normal(size=(10, 4)), r.normal(size=(10, 6)), window=3).shape)
