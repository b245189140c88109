import numpy as np


def linear_attention(q, k, v, state={}):
    S = state.setdefault("S", np.zeros((k.shape[1], v.shape[1])))
    out = []
    for qt, kt, vt in zip(q, k, v):
        S += np.outer(kt, vt)
        out.append(qt @ S)
    return np.array(out)
