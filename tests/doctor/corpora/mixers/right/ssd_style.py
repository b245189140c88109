import torch


def selective_scan(C, B, x, dt, rate):
    """Mamba-2's recurrence: C, B (batch, heads, n, state), x (batch, heads, n, p), dt (batch, heads, n), rate (heads,) < 0."""
    h = x.new_zeros(*x.shape[:2], B.size(-1), x.size(-1))
    out = []
    for t in range(x.size(2)):
        step = dt[:, :, t, None, None]
        h = torch.exp(step * rate[:, None, None]) * h + step * B[:, :, t, :, None] * x[:, :, t, None, :]
        out.append((C[:, :, t, None, :] @ h).squeeze(-2))
    return torch.stack(out, 2)
