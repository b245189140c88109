import torch


def chunkwise_retention(q, k, v, past_kv, decay):
    """Any number of tokens and the state before them: q, k, v (batch, heads, n, dim), decay (heads, 1, 1)."""
    n = q.shape[-2]
    i = torch.arange(n, dtype=q.dtype)
    inner = (q @ k.transpose(-1, -2) * (decay ** (i[:, None] - i)).tril()) @ v
    cross = (q @ past_kv) * decay ** (i[:, None] + 1)
    return inner + cross, decay * past_kv + (k * decay ** (n - 1 - i)[:, None]).transpose(-1, -2) @ v
