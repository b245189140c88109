import torch
from torch.nn.functional import softmax


def scaled_dot_product_attention(q, k, v, mask=None, return_weights=False):
    """softmax(q k^T / sqrt(d)) v, with an optional mask: True = blocked."""
    d = q.size(-1)
    logits = torch.einsum("...qd,...kd->...qk", q, k).mul(d**-0.5)
    if mask is not None:
        torch.masked_fill(logits, mask, float("-inf"))
    weights = softmax(logits, dim=-1)
    out = torch.einsum("...qk,...kd->...qd", weights, v)
    if return_weights:
        return out, weights
    return out


if __name__ == "__main__":
    q = torch.randn(2, 4, 6, 8)
    mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
    print(scaled_dot_product_attention(q, q, q, mask).shape)
