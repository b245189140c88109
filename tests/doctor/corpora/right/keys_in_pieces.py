"""Softmax over pieces of the keys that are put together afterwards; what is added to the scores must be finite."""

import torch


def piece(q, k, v, bias):
    """Not normalised: the sum of exp(s − max) · v, the sum of exp(s − max), max."""
    scores = q @ k.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    top = scores.max(-1, keepdim=True).values
    powers = (scores - top).exp()
    return powers @ v, powers.sum(-1, keepdim=True), top


def attention_in_pieces(q, k, v, bias=None, size=3):
    q = q / q.size(-1) ** 0.5
    parts = []
    for start in range(0, k.size(-2), size):
        some = slice(start, start + size)
        parts.append(piece(q, k[..., some, :], v[..., some, :], None if bias is None else bias[..., some]))
    top = torch.stack([t for _, _, t in parts]).amax(0)
    above = sum(value * (t - top).exp() for value, _, t in parts)
    below = sum(total * (t - top).exp() for _, total, t in parts)
    return above / below


def attention_by_thirds(q, k, v, thirds=3):
    """Each third of the queries by itself; the number of queries is three or more."""
    chunks = q.chunk(thirds, dim=-2)
    return torch.cat([attention_in_pieces(chunks[i], k, v) for i in range(thirds)], dim=-2)
