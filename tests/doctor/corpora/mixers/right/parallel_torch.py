import torch


def retention(q, k, v, gamma):
    """q, k, v: (batch, heads, length, dim); gamma: one number."""
    n = q.shape[-2]
    idx = torch.arange(n, device=q.device)
    dist = idx[:, None] - idx[None, :]
    decay = torch.where(dist >= 0, gamma ** dist.clamp(min=0).to(q.dtype), torch.zeros((), dtype=q.dtype))
    return (q @ k.transpose(-1, -2) * decay) @ v
