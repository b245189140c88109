import numpy as np

def retention(q, k, v, gamma, block_size):
    out = np.zeros_like(v)
    for s in range(0, len(q), block_size):
        e = min(len(q), s + block_size)
        i = np.arange(e - s)
        D = np.tril(gamma ** (i[:, None] - i[None, :]).astype(float))
        out[s:e] = (q[s:e] @ k[s:e].T * D) @ v[s:e]
    return out
