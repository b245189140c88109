import torch
from torch import nn


class RaggedSelfAttention(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, seqs):
        """seqs: list of (n_i, dim) tensors of different lengths; returns a list"""
        return [self.out(ragged_attention(*self.qkv(s).chunk(3, -1), self.heads)) for s in seqs]


def ragged_attention(q, k, v, heads):
    outs = []
    for qh, kh, vh in zip(q.chunk(heads, -1), k.chunk(heads, -1), v.chunk(heads, -1)):
        w = torch.softmax(qh @ kh.T / kh.size(1) ** 0.5, dim=1)
        outs.append(w @ vh)
    return torch.cat(outs, dim=1)


print([y.shape for y in RaggedSelfAttention()([torch.randn(4, 24), torch.randn(7, 24)])])
