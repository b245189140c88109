import torch
import torch.nn as nn


class DenseGraphAttention(nn.Module):
    """Transformer-style attention restricted to the edges of a graph.

    x:   (B, N, F) node features
    adj: (B, N, N) 1 where there is an edge i <- j (self loops included)
    """

    def __init__(self, in_features, heads, per_head):
        super().__init__()
        self.h, self.d = heads, per_head
        self.lin_query = nn.Linear(in_features, heads * per_head)
        self.lin_key = nn.Linear(in_features, heads * per_head)
        self.lin_value = nn.Linear(in_features, heads * per_head)
        self.lin_skip = nn.Linear(in_features, heads * per_head)

    def forward(self, x, adj):
        B, N, _ = x.shape
        q = self.lin_query(x).reshape(B, N, self.h, self.d).transpose(1, 2)
        k = self.lin_key(x).reshape(B, N, self.h, self.d).transpose(1, 2)
        v = self.lin_value(x).reshape(B, N, self.h, self.d).transpose(1, 2)
        e = q @ k.transpose(2, 3) / self.d ** 0.5        # B, h, N, N
        e = e.masked_fill(adj.unsqueeze(1) == 0, -1e9)
        alpha = torch.softmax(e, dim=1)
        out = (alpha @ v).transpose(1, 2).reshape(B, N, self.h * self.d)
        return out + self.lin_skip(x)


if __name__ == "__main__":
    adj = ((torch.rand(2, 6, 6) > 0.5) | torch.eye(6, dtype=torch.bool)).float()
    print(DenseGraphAttention(10, 4, 8)(torch.randn(2, 6, 10), adj).shape)
