import torch
import torch.nn as nn


def attend(q, k, v):
    """q: (b, h, i, d), k and v: (b, h, j, d) -> (b, h, i, d)"""
    dots = torch.einsum('bhjd,bhid->bhji', k, q) * q.shape[-1] ** -0.5
    attn = dots.softmax(dim=-1)
    return torch.einsum('bhji,bhjd->bhid', attn, v)


class Layer(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        return self.out(attend(q, k, v).transpose(1, 2).reshape(b, n, d))


if __name__ == "__main__":
    print(Layer()(torch.randn(2, 7, 32)).shape)
