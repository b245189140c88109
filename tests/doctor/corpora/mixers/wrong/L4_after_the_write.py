import torch


def retention_recurrent(q, k, v, gamma):
    B, T, D = q.shape
    S = torch.zeros(B, D, v.shape[-1], dtype=q.dtype)
    outs = []
    for t in range(T):
        S = gamma * (S + k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(1))
        outs.append(torch.einsum("bd,bde->be", q[:, t], S))
    return torch.stack(outs, dim=1)
