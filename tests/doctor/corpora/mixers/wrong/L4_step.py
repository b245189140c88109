import torch

def recurrent_retention(q, k, v, past_kv, decay):
    """One token: q, k, v (batch, heads, 1, dim), past_kv (batch, heads, dim, dim), decay (heads, 1, 1)."""
    current = decay * (past_kv + k.transpose(-1, -2) @ v)
    return q @ current, current
