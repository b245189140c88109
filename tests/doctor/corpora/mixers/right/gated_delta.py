import torch


def gated_delta_rule(query, key, value, g, beta):
    """g: log decay (batch, heads, length), below 0; beta (batch, heads, length)."""
    batch, heads, length, dim = key.shape
    state = torch.zeros(batch, heads, dim, value.shape[-1]).to(value)
    output = torch.zeros_like(value)
    for t in range(length):
        state = state * g[:, :, t].exp()[..., None, None]
        held = (state * key[:, :, t, :, None]).sum(-2)
        delta = (value[:, :, t] - held) * beta[:, :, t, None]
        state = state + key[:, :, t, :, None] * delta[:, :, None]
        output[:, :, t] = (state * query[:, :, t, :, None]).sum(-2)
    return output
