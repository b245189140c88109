import torch


def delta_rule(q, k, v, beta):
    # beta: (batch, heads, length)
    b, h, n, d = q.shape
    memory = torch.zeros(b, h, d, v.shape[-1], dtype=q.dtype)
    y = torch.zeros_like(v)
    for i in range(n):
        ki, vi, bi = k[:, :, i], v[:, :, i], beta[:, :, i, None]
        old = torch.einsum("bhd,bhde->bhe", ki, memory)
        memory = memory + torch.einsum("bhd,bhe->bhde", ki, bi * vi - old)
        y[:, :, i] = torch.einsum("bhd,bhde->bhe", q[:, :, i], memory)
    return y
