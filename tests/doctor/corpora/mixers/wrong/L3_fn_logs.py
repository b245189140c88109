import torch

def chunk_retention(q, k, v, log_gamma, chunk_len):
    """(b, h, n, d); log_gamma: (h,)"""
    b, h, n, d = q.shape
    lg = log_gamma.view(1, h, 1, 1)
    S = torch.zeros(b, h, d, v.shape[-1], dtype=q.dtype)
    o = torch.empty_like(v)
    for i in range(0, n, chunk_len):
        j = min(i + chunk_len, n)
        r = torch.arange(j - i, dtype=q.dtype)
        rel = (r[:, None] - r[None, :])
        mask = torch.where(rel >= 0, torch.exp(lg * rel), torch.zeros((), dtype=q.dtype))
        o[:, :, i:j] = (q[:, :, i:j] @ k[:, :, i:j].transpose(-1, -2) * mask) @ v[:, :, i:j]
        o[:, :, i:j] += torch.exp(lg * (r[:, None] + 1)) * (q[:, :, i:j] @ S)
        S = torch.exp(lg * chunk_len) * S + (k[:, :, i:j] * torch.exp(lg * r[:, None])).transpose(-1, -2) @ v[:, :, i:j]
    return o
