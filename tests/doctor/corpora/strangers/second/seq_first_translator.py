import torch
from torch import nn


class AttentionTBC(nn.Module):
    """x: (T, B, C)"""

    def __init__(self, C, H):
        super().__init__()
        self.H, self.D = H, C // H
        self.q, self.k, self.v, self.o = nn.Linear(C, C), nn.Linear(C, C), nn.Linear(C, C), nn.Linear(C, C)

    def forward(self, x, m=None):
        T, B, C = x.shape
        m = x if m is None else m
        S = m.shape[0]
        q = self.q(x).view(T, B * self.H, self.D).transpose(0, 1)
        k = self.k(m).view(S, B * self.H, self.D).transpose(0, 1)
        v = self.v(m).view(S, B * self.H, self.D).transpose(0, 1)
        w = torch.softmax(torch.bmm(q, k.transpose(1, 2)) * self.D ** -0.5, dim=-1)
        y = torch.bmm(w, v)                     # (B*H, T, D)
        return self.o(y.view(T, B, C))


if __name__ == "__main__":
    f = AttentionTBC(24, 4)
    print(f(torch.randn(5, 2, 24)).shape, f(torch.randn(5, 2, 24), torch.randn(9, 2, 24)).shape)
