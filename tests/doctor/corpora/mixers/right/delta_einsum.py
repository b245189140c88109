import torch
from torch import einsum


def delta_rule(q, k, v, beta):
    # q, k, v: (b, h, n, d)   beta: (b, h, n)
    b, h, n, d = q.shape
    memory = torch.zeros(b, h, d, v.shape[-1], dtype=q.dtype, device=q.device)
    y = torch.zeros_like(v)
    for i in range(n):
        ki, vi, bi = k[:, :, i], v[:, :, i], beta[:, :, i]
        old = einsum("bhd,bhde->bhe", ki, memory)
        memory = memory + einsum("bhd,bhe->bhde", ki, bi[..., None] * (vi - old))
        y[:, :, i] = einsum("bhd,bhde->bhe", q[:, :, i], memory)
    return y
