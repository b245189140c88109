import torch


def delta_rule(q, k, v, beta):
    B, H, N, D = q.shape
    out = torch.zeros_like(v)
    S = torch.zeros(B, D, v.shape[-1], dtype=q.dtype)
    for h in range(H):
        for t in range(N):
            kt, vt, bt = k[:, h, t], v[:, h, t], beta[:, h, t]
            old = torch.einsum("bde,bd->be", S, kt)
            S = S + torch.einsum("bd,be->bde", kt, bt[:, None] * (vt - old))
            out[:, h, t] = torch.einsum("bd,bde->be", q[:, h, t], S)
    return out
