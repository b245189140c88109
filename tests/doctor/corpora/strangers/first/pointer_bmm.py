import torch
import torch.nn as nn


class BatchedHeads(nn.Module):
    """Cross attention computed with bmm. queries (B, n, D), context (B, m, D), context_keep (B, m) bool"""

    def __init__(self, D, H):
        super().__init__()
        self.H, self.d = H, D // H
        self.Wq, self.Wk, self.Wv, self.Wo = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def fold(self, t):
        B, n, _ = t.shape
        return t.view(B, n, self.H, self.d).transpose(1, 2).reshape(B * self.H, n, self.d)

    def forward(self, queries, context, context_keep=None):
        B, n, D = queries.shape
        m = context.shape[1]
        q, k, v = self.fold(self.Wq(queries)), self.fold(self.Wk(context)), self.fold(self.Wv(context))
        s = torch.bmm(q, k.mT) / self.d ** 0.5
        if context_keep is not None:
            keep = context_keep.unsqueeze(0).expand(self.H, B, m).reshape(self.H * B, 1, m)
            s = s.masked_fill(~keep, float("-inf"))
        o = torch.bmm(s.softmax(-1), v).view(B, self.H, n, self.d).transpose(1, 2).reshape(B, n, D)
        return self.Wo(o)


if __name__ == "__main__":
    keep = torch.arange(7)[None] < torch.tensor([7, 3, 5])[:, None]
    print(BatchedHeads(32, 4)(torch.randn(3, 4, 32), torch.randn(3, 7, 32), keep).shape)
