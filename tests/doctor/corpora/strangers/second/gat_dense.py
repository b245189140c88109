"""Dense multi-head graph attention with an adjacency mask."""
import torch
import torch.nn as nn


class GraphAttention(nn.Module):
    def __init__(self, feat, heads, drop=0.3):
        super().__init__()
        self.heads, self.dim, self.drop = heads, feat // heads, drop
        self.lin_q, self.lin_k, self.lin_v = nn.Linear(feat, feat), nn.Linear(feat, feat), nn.Linear(feat, feat)
        self.lin_o = nn.Linear(feat, feat)

    def forward(self, nodes, adj):
        """nodes: (B, N, feat); adj: (B, N, N), non-zero for an edge, self loops included"""
        B, N, _ = nodes.shape
        q = self.lin_q(nodes).reshape(B, N, self.heads, self.dim)
        k = self.lin_k(nodes).reshape(B, N, self.heads, self.dim)
        v = self.lin_v(nodes).reshape(B, N, self.heads, self.dim)
        e = torch.einsum("bihd,bjhd->bhij", q, k) / self.dim ** 0.5
        e = e.masked_fill(adj.unsqueeze(1) == 0, float("-inf"))
        alpha = torch.softmax(e, dim=-1)
        alpha = nn.functional.dropout(alpha, self.drop, True)
        return self.lin_o(torch.einsum("bhij,bjhd->bihd", alpha, v).reshape(B, N, -1))


if __name__ == "__main__":
    adj = (torch.rand(2, 6, 6) > 0.5).float() + torch.eye(6)
    print(GraphAttention(24, 3).eval()(torch.randn(2, 6, 24), adj).shape)
