import torch


def attend(q, k, v, padding_mask=None):
    """Dot product attention of the pointer network.

    q            (B, n, d)
    k, v         (B, m, d)
    padding_mask (B, m), True at padded keys
    """
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    if padding_mask is not None:
        weights = weights.masked_fill(padding_mask[:, None, :], 0.0)
    return weights @ v
