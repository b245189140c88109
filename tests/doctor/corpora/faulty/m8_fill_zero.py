import torch
import torch.nn.functional as F


def multi_head_attention(query, key, value, mask=None):
    """
    Args:
        query: Tensor of shape (batch, heads, n, d)
        key, value: Tensors of shape (batch, heads, m, d)
        mask: bool Tensor, True where attention is allowed

    Returns:
        (output, weights)
    """
    scores = torch.matmul(query, key.transpose(-2, -1)) / (query.shape[-1] ** 0.5)
    if mask is not None:
        scores = torch.where(mask, scores, torch.zeros_like(scores))
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, value), weights
