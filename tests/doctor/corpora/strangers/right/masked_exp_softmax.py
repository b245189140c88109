import math
import torch


def masked_softmax(scores, mask):
    """mask: float 1 keep / 0 drop. The sum runs over kept entries only, so rows sum to 1."""
    top = scores.masked_fill(mask == 0, float("-inf")).amax(dim=-1, keepdim=True)
    e = torch.exp((scores - top).clamp(max=0)) * mask
    return e / e.sum(dim=-1, keepdim=True)


def masked_attention(query, key, value, mask):
    """query (B, N, D), key/value (B, M, D), mask (B, M) float with 1 = real"""
    scores = query.bmm(key.transpose(1, 2)) / math.sqrt(query.size(-1))
    weights = masked_softmax(scores, mask.unsqueeze(1).expand_as(scores))
    return weights.bmm(value), weights
