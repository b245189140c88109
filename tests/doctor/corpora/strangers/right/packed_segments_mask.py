import torch
import torch.nn as nn


def segment_mask(seg):
    """seg (B, N) int, tokens of the same document share an id. True = keep."""
    same = seg.unsqueeze(2) == seg.unsqueeze(1)
    n = seg.size(1)
    return (same & torch.ones(n, n, dtype=torch.bool, device=seg.device).tril()).unsqueeze(1)


class PackedAttention(nn.Module):
    def __init__(self, c, h):
        super().__init__()
        self.h = h
        self.c_q, self.c_k, self.c_v = (nn.Linear(c, c, bias=False) for _ in range(3))
        self.c_proj = nn.Linear(c, c, bias=False)

    def forward(self, x, seg):
        B, N, C = x.shape
        q, k, v = (l(x).view(B, N, self.h, C // self.h).transpose(1, 2) for l in (self.c_q, self.c_k, self.c_v))
        att = (q @ k.transpose(-2, -1)) * (C // self.h) ** -0.5
        att = att.masked_fill(~segment_mask(seg), float('-inf')).softmax(dim=-1)
        return self.c_proj((att @ v).transpose(1, 2).reshape(B, N, C))


seg = torch.tensor([[0, 0, 0, 1, 1, 2]])
print(segment_mask(seg)[0, 0].int())
