import torch
import torch.nn as nn


class GraphAttention(nn.Module):
    """Dot-product attention over neighbours, one head. h: [N, F_in], adj: [N, N] (0/1 with self-loops)"""

    def __init__(self, f_in, f_out, dropout=0.0):
        super().__init__()
        self.f_out = f_out
        self.w_src = nn.Linear(f_in, f_out, bias=False)
        self.w_dst = nn.Linear(f_in, f_out, bias=False)
        self.w_val = nn.Linear(f_in, f_out, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, h, adj):
        q, k, v = self.w_dst(h), self.w_src(h), self.w_val(h)
        e = q @ k.t() / self.f_out ** 0.5
        attention = torch.softmax(e, dim=1)
        attention = torch.where(adj > 0, attention, torch.zeros_like(attention))
        attention = self.dropout(attention)
        return torch.nn.functional.elu(attention @ v)


if __name__ == "__main__":
    N = 7
    A = (torch.rand(N, N) > 0.6).float()
    A = ((A + A.t() + torch.eye(N)) > 0).float()
    print(GraphAttention(5, 8)(torch.randn(N, 5), A).shape)
