import numpy as np

def multi_scale_retention(q, k, v, gammas):
    """q, k, v (heads, n, d); gammas (heads,)"""
    out = []
    for h in range(len(q)):
        S = np.zeros((k.shape[-1], v.shape[-1])); rows = []
        for t in range(q.shape[1]):
            S = gammas[h] * S + np.outer(k[h, t], v[h, t])
            rows.append(q[h, t] @ S)
        out.append(rows)
    return np.array(out)
