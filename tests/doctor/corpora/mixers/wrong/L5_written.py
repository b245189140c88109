import torch

def delta_net(q, k, v, beta):
    """(B, N, D), beta (B, N)"""
    S = torch.zeros(q.shape[0], k.shape[-1], v.shape[-1], dtype=q.dtype)
    ys = []
    for t in range(q.shape[1]):
        kt, vt, bt = k[:, t], v[:, t], beta[:, t][:, None]
        held = torch.bmm(kt[:, None], S)[:, 0]
        S = S + torch.bmm(kt[:, :, None], (vt - bt * held)[:, None])
        ys.append(torch.bmm(q[:, t][:, None], S)[:, 0])
    return torch.stack(ys, 1)
