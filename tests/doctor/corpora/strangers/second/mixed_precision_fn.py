import torch
import torch.nn.functional as F


def masked_attention(query, key, value, key_padding_mask=None, dtype=None):
    """Scaled dot-product attention.

    query, key, value: (batch, heads, n, d)
    key_padding_mask:  (batch, n) bool, True where the key is padding
    dtype:             torch.float16 / torch.bfloat16 / None to keep the input's
    """
    if dtype is not None:
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    scores = torch.einsum("bhqd,bhkd->bhqk", query * query.size(-1) ** -0.5, key)
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, None, None, :], -1e9)
    return torch.einsum("bhqk,bhkd->bhqd", F.softmax(scores, dim=-1), value)


if __name__ == "__main__":
    q = k = v = torch.randn(2, 4, 6, 8)
    pad = torch.arange(6)[None] >= torch.tensor([6, 4])[:, None]
    print(masked_attention(q, k, v, pad).dtype, masked_attention(q, k, v, pad, torch.bfloat16).dtype)
