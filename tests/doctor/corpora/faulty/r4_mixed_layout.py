import torch


def rotate_half(x):
    """Rotates half the hidden dims of the input."""
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def build_rope_cache(seq_len, head_dim, base=10000.0):
    inv_freq = 1.0 / (base ** (torch.arange(0, head_dim, 2).double() / head_dim))
    freqs = torch.outer(torch.arange(seq_len).double(), inv_freq)
    emb = freqs.repeat_interleave(2, dim=-1)  # (seq_len, head_dim)
    return emb.cos(), emb.sin()


def apply_rope(x):
    """Rotary position embedding of x: (batch, heads, seq_len, head_dim)"""
    cos, sin = build_rope_cache(x.size(-2), x.size(-1))
    cos, sin = cos.to(x), sin.to(x)
    return x * cos + rotate_half(x) * sin


if __name__ == "__main__":
    q = torch.randn(1, 2, 5, 8)
    print(apply_rope(q).shape)
