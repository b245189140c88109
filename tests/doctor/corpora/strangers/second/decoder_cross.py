import torch
from torch import nn
import torch.nn.functional as F


class CrossAttention(nn.Module):
    """left attends to right."""

    def __init__(self, width, n_head):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.proj = nn.Linear(width, width)

    def split(self, t):
        return t.unflatten(-1, (self.n_head, -1)).transpose(1, 2)

    def forward(self, left, right):
        q = self.split(self.value(left))
        k = self.split(self.key(right))
        v = self.split(self.value(right))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).flatten(2))


if __name__ == "__main__":
    layer = CrossAttention(40, 5)
    print(layer(torch.randn(2, 4, 40), torch.randn(2, 11, 40)).shape)
