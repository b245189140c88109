import torch
from torch import nn


class CrossAttention(nn.Module):
    """inputs attend to context; with context=None this is self-attention"""

    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, inputs, context=None):
        B, N, D = inputs.shape
        source = inputs if context is None else context
        q = self.q(inputs).view(B, N, self.heads, -1).transpose(1, 2)
        k, v = self.kv(inputs).chunk(2, dim=-1)
        k = k.reshape(B, -1, self.heads, D // self.heads).transpose(1, 2)
        v = v.reshape(B, -1, self.heads, D // self.heads).transpose(1, 2)
        a = torch.softmax(q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5, dim=-1)
        return self.o((a @ v).transpose(1, 2).reshape(B, N, D))


if __name__ == "__main__":
    att = CrossAttention(32)
    print(att(torch.randn(2, 5, 32), torch.randn(2, 8, 32)).shape)
