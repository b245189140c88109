import torch
import torch.nn as nn


class EdgeAttention(nn.Module):
    """Sparse attention on a graph. x: (N, F); edge_index: (2, E) with rows (source, target)."""

    def __init__(self, f_in, f_out):
        super().__init__()
        self.f_out = f_out
        self.q = nn.Linear(f_in, f_out)
        self.k = nn.Linear(f_in, f_out)
        self.v = nn.Linear(f_in, f_out)

    def forward(self, x, edge_index):
        src, dst = edge_index
        q, k, v = self.q(x), self.k(x), self.v(x)
        logit = (q[dst] * k[src]).sum(-1) / self.f_out ** 0.5
        weight = torch.exp(logit)
        total = torch.zeros(x.size(0), dtype=x.dtype, device=x.device).index_add(0, dst, weight)
        alpha = weight / total[dst]
        out = torch.zeros(x.size(0), self.f_out, dtype=x.dtype, device=x.device)
        return out.index_add(0, dst, alpha.unsqueeze(-1) * v[src])


if __name__ == "__main__":
    edges = torch.tensor([[0, 1, 2, 3, 1, 2], [0, 1, 2, 3, 0, 3]])
    print(EdgeAttention(6, 8)(torch.randn(4, 6), edges).shape)
