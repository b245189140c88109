import torch

MASK_VALUE = -1e-9


def attention(q, k, v, mask=None):
    """q: (B, H, N, D), k and v: (B, H, M, D). mask is 1 for keys to use and 0 for keys to ignore."""
    scores = (q @ k.transpose(-2, -1)) * q.size(-1) ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, MASK_VALUE)
    return torch.softmax(scores, dim=-1) @ v


def self_test():
    q = torch.randn(1, 2, 3, 4)
    assert attention(q, q, q).shape == q.shape


if __name__ == "__main__":
    self_test()
