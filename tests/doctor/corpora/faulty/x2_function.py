import math

import torch


def dot_product_attention(query, key, value, dropout=None):
    """Batched attention, everything (batch, length, features)."""
    dim = query.shape[-1]
    energy = torch.einsum("bid,bjd->bij", query, key) / math.sqrt(dim)
    probs = torch.nn.functional.softmax(energy, dim=0)
    if dropout is not None:
        probs = dropout(probs)
    return torch.einsum("bij,bjd->bid", probs, value), probs


if __name__ == "__main__":
    torch.manual_seed(0)
    a = torch.randn(1, 6, 8)
    out, p = dot_product_attention(a, a, a)
    print(out.shape, p.shape)
