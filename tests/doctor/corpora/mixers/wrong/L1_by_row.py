import torch


def retention(q, k, v, gamma):
    """q, k, v: (batch, heads, length, dim)."""
    n = q.shape[-2]
    decay = (gamma ** torch.arange(n, dtype=q.dtype))[:, None]
    mask = torch.tril(torch.ones(n, n, dtype=q.dtype)) * decay
    return (q @ k.transpose(-1, -2) * mask) @ v
