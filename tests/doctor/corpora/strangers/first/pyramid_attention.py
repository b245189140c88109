import torch
from torch import nn


class DotAttention(nn.Module):
    def forward(self, q, k, v):
        if not hasattr(self, "scale"):
            self.scale = q.shape[-1] ** -0.5
        w = (q @ k.mT * self.scale).softmax(-1)
        return w @ v


class PyramidAttention(nn.Module):
    """Self-attention on every level of a feature pyramid, finest level first."""

    def __init__(self, widths=(8, 32, 128)):
        super().__init__()
        self.q = nn.ModuleList(nn.Linear(w, w, bias=False) for w in widths)
        self.k = nn.ModuleList(nn.Linear(w, w, bias=False) for w in widths)
        self.v = nn.ModuleList(nn.Linear(w, w, bias=False) for w in widths)
        self.attend = DotAttention()

    def forward(self, levels):
        outs = []
        for i, f in enumerate(levels):
            B, C, H, W = f.shape
            t = f.flatten(2).transpose(1, 2)                    # (B, HW, C)
            t = t + self.attend(self.q[i](t), self.k[i](t), self.v[i](t))
            outs.append(t.transpose(1, 2).reshape(B, C, H, W))
        return outs


if __name__ == "__main__":
    net = PyramidAttention()
    maps = [torch.randn(2, 8, 8, 8), torch.randn(2, 32, 4, 4), torch.randn(2, 128, 2, 2)]
    print([tuple(m.shape) for m in net(maps)])
