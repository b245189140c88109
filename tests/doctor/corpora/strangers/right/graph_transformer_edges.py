import torch
import torch.nn as nn


class GraphTransformerLayer(nn.Module):
    def __init__(self, dim, heads, edge_dim):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.e = nn.Linear(edge_dim, heads)        # one scalar bias per head and edge
        self.o = nn.Linear(dim, dim)

    def forward(self, h, adj, edge):
        """h (B, N, D) nodes, adj (B, N, N) 0/1 with adj[b, i, j] = 1 if i listens to j, edge (B, N, N, E)"""
        B, N, D = h.shape
        q = self.q(h).view(B, N, self.heads, self.hd)
        k = self.k(h).view(B, N, self.heads, self.hd)
        v = self.v(h).view(B, N, self.heads, self.hd)
        score = torch.einsum('bihd,bjhd->bijh', q, k) / self.hd ** 0.5
        score = score + self.e(edge)
        adj = (adj + torch.eye(N, device=h.device)).clamp(max=1)   # self loops
        score = score.masked_fill(adj.unsqueeze(-1) == 0, -1e9)
        alpha = torch.softmax(score, dim=2)         # over the neighbours j; heads are last
        out = torch.einsum('bijh,bjhd->bihd', alpha, v).reshape(B, N, D)
        return self.o(out)
