import numpy as np

def gated_linear_attention(q, k, v, alpha):
    """alpha (n,): how much each token keeps."""
    S = np.zeros((q.shape[1], v.shape[1]))
    out = []
    for t in range(len(q)):
        S = S + np.outer(k[t], v[t])
        out.append(q[t] @ S)
        S = alpha[t] * S
    return np.stack(out)
