import torch


def alibi_bias(num_heads: int, seq_len: int) -> torch.Tensor:
    """ALiBi bias of shape (num_heads, seq_len, seq_len): minus slope times distance, slopes 2^(-8(h+1)/H)."""
    head = torch.arange(num_heads, dtype=torch.get_default_dtype())
    slopes = 2.0 ** (-8.0 * head / num_heads)
    i = torch.arange(seq_len)
    distance = (i[:, None] - i[None, :]).clamp(min=0)
    return -slopes[:, None, None] * distance


def attention_with_alibi(q, k, v):
    """q, k, v: (batch, heads, seq_len, dim), causal"""
    n = q.size(-2)
    scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5 + alibi_bias(q.size(1), n)
    scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ v


if __name__ == "__main__":
    print(alibi_bias(4, 5)[0])
