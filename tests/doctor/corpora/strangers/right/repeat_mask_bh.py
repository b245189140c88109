import torch
import torch.nn as nn


class FoldedAttention(nn.Module):
    def __init__(self, d, n_heads):
        super().__init__()
        self.n = n_heads
        self.q, self.k, self.v, self.fc = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def fold(self, t):
        B, L, D = t.shape
        return t.view(B, L, self.n, D // self.n).permute(0, 2, 1, 3).reshape(B * self.n, L, D // self.n)

    def forward(self, query, context, mask=None):
        """mask (B, Lq, Lk) or (B, 1, Lk), nonzero = visible"""
        B, Lq, D = query.shape
        q, k, v = self.fold(self.q(query)), self.fold(self.k(context)), self.fold(self.v(context))
        score = torch.bmm(q, k.mT) / (D // self.n) ** 0.5
        if mask is not None:
            score = score.masked_fill(mask.repeat_interleave(self.n, dim=0) == 0, float('-inf'))
        ctx = torch.bmm(torch.softmax(score, dim=2), v)
        ctx = ctx.view(B, self.n, Lq, -1).permute(0, 2, 1, 3).reshape(B, Lq, D)
        return self.fc(ctx)
