import torch
from torch import nn


class GraphTransformerLayer(nn.Module):
    """Node attention with an additive edge bias. nodes: (B, N, F), edges: (B, N, N, E)"""

    def __init__(self, feat=48, edge_feat=6, heads=4):
        super().__init__()
        self.heads, self.size = heads, feat // heads
        self.Wq = nn.Parameter(torch.randn(self.size, self.size) * self.size ** -0.5)
        self.Wk = nn.Parameter(torch.randn(self.size, self.size) * self.size ** -0.5)
        self.Wv = nn.Parameter(torch.randn(self.size, self.size) * self.size ** -0.5)
        self.edge = nn.Linear(edge_feat, heads)
        self.out = nn.Linear(feat, feat)
        self.norm = nn.LayerNorm(feat)

    def forward(self, nodes, edges):
        B, N, F = nodes.shape
        z = nodes.view(B, N, self.heads, self.size).permute(0, 2, 1, 3)
        q, k, v = z @ self.Wq, z @ self.Wk, z @ self.Wv
        logits = q @ k.transpose(-1, -2) / self.size ** 0.5 + self.edge(edges).permute(0, 3, 1, 2)
        mixed = (logits.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(B, N, F)
        return self.norm(nodes + self.out(mixed))


if __name__ == "__main__":
    print(GraphTransformerLayer()(torch.randn(2, 7, 48), torch.randn(2, 7, 7, 6)).shape)
