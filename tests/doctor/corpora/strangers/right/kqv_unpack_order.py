import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.kqv = nn.Linear(width, 3 * width, bias=True)
        self.merge = nn.Linear(width, width, bias=True)

    def forward(self, x):
        b, l, w = x.shape
        k, q, v = self.kqv(x).split(w, dim=-1)         # keys first!
        k, q, v = (t.view(b, l, self.n_heads, -1).transpose(1, 2) for t in (k, q, v))
        sim = torch.einsum("bhqd,bhkd->bhqk", q, k) / (w // self.n_heads) ** 0.5
        return self.merge(torch.einsum("bhqk,bhkd->bqhd", sim.softmax(-1), v).flatten(2))


if __name__ == "__main__":
    print(Attention(36, 6)(torch.randn(3, 4, 36)).shape)
