import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    """x: (seq, batch, dim)"""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.W_Q = nn.Linear(dim, dim, bias=False)
        self.W_K = nn.Linear(dim, dim, bias=False)
        self.W_V = nn.Linear(dim, dim, bias=False)
        self.W_O = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        S, B, D = x.shape
        Q = self.W_Q(x).view(S, B, self.heads, -1).permute(1, 2, 0, 3)
        K = self.W_K(x).view(S, B, self.heads, -1).permute(1, 2, 0, 3)
        V = self.W_V(x).view(S, B, self.heads, -1).permute(1, 2, 0, 3)
        att = Q @ K.transpose(-1, -2) / (K.size(-2) ** 0.5)
        att = att.softmax(-1)
        out = (att @ V).permute(2, 0, 1, 3).reshape(S, B, D)
        return self.W_O(out)


if __name__ == "__main__":
    sa = SelfAttention(64, 4)
    print(sa(torch.randn(20, 2, 64)).shape)
