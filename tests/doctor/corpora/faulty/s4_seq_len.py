import numpy as np
import torch


def attention(query, key, value, mask=None):
    """
    query: [batch, n_query, depth]
    key:   [batch, n_key, depth]
    value: [batch, n_key, depth_v]
    mask:  [batch, n_query, n_key], True = keep
    """
    n = query.shape[1]
    score = torch.bmm(query, key.permute(0, 2, 1)) / np.sqrt(n)
    if mask is not None:
        score = score.masked_fill(~mask, -np.inf)
    weight = torch.softmax(score, dim=-1)
    return torch.bmm(weight, value)


if __name__ == "__main__":
    q, k, v = torch.randn(2, 5, 16), torch.randn(2, 7, 16), torch.randn(2, 7, 16)
    print(attention(q, k, v).size())
