import torch
import torch.nn as nn


class SelfAttention2d(nn.Module):
    def __init__(self, channels, reduction=4):
        super().__init__()
        self.inner = channels // reduction
        self.theta = nn.Conv2d(channels, self.inner, 1, bias=False)
        self.phi = nn.Conv2d(channels, self.inner, 1, bias=False)
        self.g = nn.Conv2d(channels, self.inner, 1, bias=False)
        self.o = nn.Conv2d(self.inner, channels, 1, bias=False)
        self.gamma = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        b, c, h, w = x.shape
        q = self.theta(x).flatten(2)               # b, inner, hw
        k = self.phi(x).flatten(2)
        v = self.g(x).flatten(2)
        att = torch.bmm(q.transpose(1, 2), k) / self.inner ** 0.5   # b, hw (queries), hw (keys)
        att = att.softmax(dim=-1)
        y = torch.bmm(v, att.transpose(1, 2)).view(b, self.inner, h, w)
        return x + self.gamma * self.o(y)


if __name__ == "__main__":
    print(SelfAttention2d(16)(torch.randn(2, 16, 6, 5)).shape)
