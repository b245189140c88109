import torch

def recurrent_retention(q, k, v, past_kv, decay):
    """One token: q, k, v (batch, heads, dim), past_kv (batch, heads, dim, dim), decay (heads, 1, 1)."""
    current = decay * past_kv + k.unsqueeze(-1) * v.unsqueeze(-2)
    return torch.einsum("bhd,bhde->bhe", q, current), current
