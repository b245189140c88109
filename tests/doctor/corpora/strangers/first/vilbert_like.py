import math
import torch
import torch.nn as nn


class CoAttention(nn.Module):
    """Words attend to image regions. region_mask: (B, R), 1 = region, 0 = padding"""

    def __init__(self, hidden=48, heads=3):
        super().__init__()
        self.heads = heads
        self.dh = hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)

    def forward(self, words, regions, region_mask):
        B, T, _ = words.shape
        q = self.query(words).view(B, T, self.heads, self.dh).permute(0, 2, 1, 3)
        k = self.key(regions).view(B, -1, self.heads, self.dh).permute(0, 2, 1, 3)
        v = self.value(regions).view(B, -1, self.heads, self.dh).permute(0, 2, 1, 3)
        bias = (1.0 - region_mask.to(words.dtype)) * -1e9
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.dh) + bias.unsqueeze(1)
        y = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(B, T, -1)
        return self.dense(y)


net = CoAttention()
mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]])
print(net(torch.randn(3, 5, 48), torch.randn(3, 6, 48), mask).shape)
