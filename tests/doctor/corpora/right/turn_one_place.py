import torch


def rope_at(x, pos):
    """Turns x as a token at the one place pos."""
    half = x.shape[-1] // 2
    angle = pos * 10000.0 ** (-torch.arange(half).double() / half)
    one, two = x.chunk(2, -1)
    return torch.cat([one * angle.cos() - two * angle.sin(), two * angle.cos() + one * angle.sin()], -1)
