import numpy as np


def decay_mask(n, gamma):
    return np.array([[gamma ** (i - j) if i >= j else 0.0 for j in range(n)] for i in range(n)])


def retention_chunks(q, k, v, gamma, chunk):
    S, parts = np.zeros((k.shape[1], v.shape[1])), []
    for start in range(0, len(q), chunk):
        a, b, c = q[start : start + chunk], k[start : start + chunk], v[start : start + chunk]
        m = len(a)
        read = gamma ** np.arange(1, m + 1)
        left = gamma ** (m - np.arange(m))
        parts.append((a @ b.T * decay_mask(m, gamma)) @ c + read[:, None] * (a @ S))
        S = gamma**m * S + (left[:, None] * b).T @ c
    return np.concatenate(parts)
