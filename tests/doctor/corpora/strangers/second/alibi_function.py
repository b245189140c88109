"""Attention with linear biases as a pure function."""
import torch


def alibi_attention(q, k, v):
    """q, k, v: (batch, heads, n, d). Symmetric (encoder) ALiBi: bias = -m_h * |i - j|."""
    heads, n, d = q.shape[1:]
    h = torch.arange(heads, dtype=q.dtype, device=q.device)
    m = 2 ** (-8 * h / heads)
    i = torch.arange(n, device=q.device)
    distance = (i[:, None] - i[None, :]).abs().to(q.dtype)
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / d ** 0.5
    scores = scores - m[:, None, None] * distance
    return torch.einsum("bhij,bhjd->bhid", torch.softmax(scores, dim=-1), v)


if __name__ == "__main__":
    q, k, v = torch.randn(3, 2, 8, 5, 16).unbind(0)
    print(alibi_attention(q, k, v).shape)
