import torch
from torch import nn


def masked_softmax(logits, mask):
    # logits, mask: (B, H, Tq, Tk); mask is 1 for tokens we may look at
    exp = torch.exp(logits) * mask
    return exp / exp.sum(dim=-1, keepdim=True)


class MaskedAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.o = nn.Linear(width, width)

    def forward(self, x, mask=None):
        B, T, C = x.shape
        h = self.heads
        q, k, v = (f(x).view(B, T, h, C // h).transpose(1, 2) for f in (self.q, self.k, self.v))
        logits = q @ k.transpose(-1, -2) * (C // h) ** -0.5
        if mask is None:
            mask = torch.ones(B, T, device=x.device)
        w = masked_softmax(logits, mask[:, None, None, :].to(logits.dtype))
        return self.o((w @ v).transpose(1, 2).reshape(B, T, C))


if __name__ == "__main__":
    m = MaskedAttention(32, 4)
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    print(m(torch.randn(2, 4, 32), mask).shape)
