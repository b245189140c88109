import torch
import torch.nn as nn


class NeighbourAttention(nn.Module):
    """Nodes attend to their neighbours. x: (N, F), edges: (2, E) source -> target"""

    def __init__(self, feats, heads=2):
        super().__init__()
        self.heads, self.d = heads, feats // heads
        self.q, self.k, self.v = (nn.Linear(feats, feats) for _ in range(3))
        self.out = nn.Linear(feats, feats)

    def forward(self, x, edges):
        N, Fdim = x.shape
        adj = torch.zeros(N, N, dtype=torch.bool, device=x.device)
        adj[edges[1], edges[0]] = True
        q = self.q(x).view(N, self.heads, self.d).transpose(0, 1)
        k = self.k(x).view(N, self.heads, self.d).transpose(0, 1)
        v = self.v(x).view(N, self.heads, self.d).transpose(0, 1)
        e = q @ k.transpose(1, 2) / self.d ** 0.5
        e = e.masked_fill(~adj, float("-inf"))
        alpha = torch.softmax(e, dim=-1)
        h = (alpha @ v).transpose(0, 1).reshape(N, Fdim)
        return x + self.out(h)


edges = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]])
layer = NeighbourAttention(8)
print(layer(torch.randn(5, 8), edges).shape)
