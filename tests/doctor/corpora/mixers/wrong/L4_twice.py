import numpy as np


def retention(q, k, v, gamma):
    S = np.zeros((k.shape[-1], v.shape[-1]))
    ys = []
    for qn, kn, vn in zip(q, k, v):
        S = S * gamma
        S = gamma * S + np.outer(kn, vn)
        ys.append(qn @ S)
    return np.stack(ys)
