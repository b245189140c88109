import torch


def gated_linear_attention(q, k, v, log_decay):
    """A decay for every token: q, k, v (B, T, H, D), log_decay (B, T, H), all below 0."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    total = log_decay.transpose(1, 2).cumsum(-1)
    T = q.shape[2]
    between = total[..., :, None] - total[..., None, :]
    weights = between.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf")).exp()
    return ((q @ k.mT * weights) @ v).transpose(1, 2)
