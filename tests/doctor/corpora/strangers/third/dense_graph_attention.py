import torch
import torch.nn as nn


class DenseGraphAttention(nn.Module):
    """Dot-product attention between the nodes of a graph.

    h:   (batch, nodes, features)
    adj: (batch, nodes, nodes), adj[b, i, j] = 1 if node i receives messages from node j
         (self loops included)
    """

    def __init__(self, in_features, out_features):
        super().__init__()
        self.q = nn.Linear(in_features, out_features, bias=False)
        self.k = nn.Linear(in_features, out_features, bias=False)
        self.v = nn.Linear(in_features, out_features, bias=False)
        self.scale = out_features ** -0.5

    def forward(self, h, adj):
        q, k, v = self.q(h), self.k(h), self.v(h)
        e = torch.bmm(q, k.transpose(1, 2)) * self.scale
        e = e.masked_fill(adj == 0, -1e9)
        alpha = torch.softmax(e, dim=1)
        return torch.bmm(alpha, v)
