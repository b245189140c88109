import torch


def gated_linear_attention(q, k, v, log_decay):
    """q, k, v (B, H, T, D), log_decay (B, H, T), all below 0."""
    total = log_decay.cumsum(1)
    T = q.shape[2]
    between = total[..., :, None] - total[..., None, :]
    weights = between.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf")).exp()
    return (q @ k.mT * weights) @ v
