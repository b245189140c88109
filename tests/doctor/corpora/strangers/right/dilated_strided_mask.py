import torch
from torch import nn


def strided_mask(n, stride):
    """(2, n, n) bool keep: head kind 0 = last `stride` tokens, kind 1 = every stride-th earlier token and itself"""
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    local = (j <= i) & (i - j < stride)
    strided = (j <= i) & ((i - j) % stride == 0)
    return torch.stack([local, strided])


class SparseAttention(nn.Module):
    def __init__(self, d=32, heads=4, stride=3):
        super().__init__()
        assert heads % 2 == 0
        self.heads, self.stride = heads, stride
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        keep = strided_mask(n, self.stride).to(x.device).repeat_interleave(self.heads // 2, dim=0)   # (H, n, n)
        s = (q @ k.mT) / q.shape[-1] ** 0.5
        s = torch.where(keep, s, torch.full_like(s, float('-inf')))
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


print(strided_mask(6, 3).int())
