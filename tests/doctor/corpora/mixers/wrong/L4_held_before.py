import torch


def gated_delta(q, k, v, alpha, beta):
    """alpha, beta (B, H, T) in (0, 1)."""
    B, H, T, D = q.shape
    S = q.new_zeros(B, H, D, v.shape[-1])
    ys = []
    for t in range(T):
        held = torch.einsum("bhd,bhde->bhe", k[:, :, t], S)
        S = alpha[:, :, t, None, None] * S
        S = S + beta[:, :, t, None, None] * k[:, :, t, :, None] * (v[:, :, t] - held)[:, :, None]
        ys.append(torch.einsum("bhd,bhde->bhe", q[:, :, t], S))
    return torch.stack(ys, 2)
