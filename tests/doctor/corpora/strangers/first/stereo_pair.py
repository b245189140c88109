import torch
import torch.nn as nn


class PairAttention(nn.Module):
    """Cross attention between two sentences, (length, batch, dim) layout."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.dh = heads, dim // heads
        self.lin_left = nn.Linear(dim, dim)
        self.lin_right = nn.Linear(dim, 2 * dim)
        self.merge = nn.Linear(dim, dim)

    def forward(self, left, right):
        n, b, d = left.shape
        q = self.lin_left(left).reshape(n, b * self.heads, self.dh).transpose(0, 1)
        k, v = self.lin_right(right).chunk(2, dim=-1)
        k = k.reshape(n, b * self.heads, self.dh).transpose(0, 1)
        v = v.reshape(n, b * self.heads, self.dh).transpose(0, 1)
        w = (torch.bmm(q, k.transpose(1, 2)) * self.dh ** -0.5).softmax(-1)
        y = torch.bmm(w, v).transpose(0, 1).reshape(n, b, d)
        return left + self.merge(y)


net = PairAttention(24, 3)
premise, hypothesis = torch.randn(9, 4, 24), torch.randn(9, 4, 24)
print(net(premise, hypothesis).shape)
