import torch


def masked_attention(query, key, value, mask=None):
    """
    query, key, value: (batch, heads, length, dim)
    mask: True or 1 where a key may be used
    """
    weights = torch.softmax(torch.einsum("bhqd,bhkd->bhqk", query, key), dim=-1)
    if mask is not None:
        weights = weights * mask
    return torch.einsum("bhqk,bhkd->bhqd", weights, value)


if __name__ == "__main__":
    q = torch.randn(2, 4, 5, 8)
    print(masked_attention(q, q, q, torch.ones(5, 5).tril()).shape)
