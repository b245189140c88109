import torch


def gated_delta_rule(query, key, value, g, beta):
    batch, heads, length, dim = key.shape
    state = torch.zeros(batch, heads, dim, value.shape[-1]).to(value)
    output = torch.zeros_like(value)
    for t in range(length):
        held = (state * key[:, :, t, :, None]).sum(-2)
        delta = (value[:, :, t] - held) * beta[:, :, t, None]
        state = state + key[:, :, t, :, None] * delta[:, :, None]
        output[:, :, t] = (state * query[:, :, t, :, None]).sum(-2)
        state = state * g[:, :, t].exp()[..., None, None]
    return output
