import torch


def band_mask(n, one_sided):
    """Longformer-like band: a token sees `one_sided` neighbours on the left and on the right, and itself."""
    idx = torch.arange(n)
    return (idx[:, None] - idx[None, :]).abs() < one_sided


def band_attention(q, k, v, one_sided=2):
    # q, k, v: (batch, heads, n, d)
    n, d = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / d ** 0.5
    scores = scores.masked_fill(~band_mask(n, one_sided).to(q.device), float("-inf"))
    return torch.softmax(scores, dim=-1) @ v


if __name__ == "__main__":
    t = torch.randn(1, 2, 9, 8)
    print(band_attention(t, t, t, one_sided=3).shape)
    print(band_mask(6, 1).int())
