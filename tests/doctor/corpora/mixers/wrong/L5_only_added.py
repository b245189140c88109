import torch


def delta_rule(q, k, v, beta):
    B, H, N, D = q.shape
    S = torch.zeros(B, H, D, v.shape[-1], dtype=q.dtype)
    out = []
    for t in range(N):
        S = S + beta[:, :, t, None, None] * k[:, :, t, :, None] * v[:, :, t, None, :]
        out.append((q[:, :, t, None, :] @ S).squeeze(-2))
    return torch.stack(out, 2)
