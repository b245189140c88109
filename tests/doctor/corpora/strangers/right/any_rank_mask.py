import torch
from torch import nn


def expand_mask(mask, B, Q, K):
    """-> bool keep mask broadcastable to (B, H, Q, K)"""
    if mask.dim() == 1:                                   # lengths (B,)
        mask = torch.arange(K, device=mask.device)[None] < mask[:, None]
    if mask.dim() == 2:
        if mask.shape == (B, K):                          # keys per sample
            return mask[:, None, None, :].bool()
        return mask[None, None].bool()                    # (Q, K), same for everybody
    if mask.dim() == 3:
        return mask[:, None].bool()
    return mask.bool()


class Attention(nn.Module):
    def __init__(self, d_model=40, n_heads=5):
        super().__init__()
        self.n_heads = n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        (B, Q, D), K = q.shape, k.shape[1]
        heads = lambda t: t.unflatten(2, (self.n_heads, D // self.n_heads)).transpose(1, 2)
        s = heads(self.wq(q)) @ heads(self.wk(k)).mT * (D // self.n_heads) ** -0.5
        if mask is not None:
            s = s.masked_fill(expand_mask(mask, B, Q, K).logical_not(), float("-inf"))
        return self.wo((s.softmax(-1) @ heads(self.wv(v))).transpose(1, 2).flatten(2))
