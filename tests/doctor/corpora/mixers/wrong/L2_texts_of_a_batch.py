import torch


def retention_recurrent(q, k, v, gamma):
    B, T, D = q.shape
    out = torch.zeros(B, T, v.shape[-1], dtype=q.dtype)
    S = torch.zeros(D, v.shape[-1], dtype=q.dtype)
    for b in range(B):
        for t in range(T):
            S = gamma * S + torch.outer(k[b, t], v[b, t])
            out[b, t] = q[b, t] @ S
    return out
