import torch
import torch.nn as nn


class TalkingAttention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.head_width = width // heads
        self.project = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.project(x).view(b, n, 3, self.heads, self.head_width).unbind(dim=2)
        # compare every token with every token, in every head: (b, n, h, n)
        sim = torch.einsum("bnhd,bmhd->bnhm", q, k) / self.head_width ** 0.5
        attn = sim.flatten(2).softmax(dim=-1).view_as(sim)
        out = torch.einsum("bnhm,bmhd->bnhd", attn, v)
        return self.mix(out.reshape(b, n, w))


if __name__ == "__main__":
    layer = TalkingAttention(32, 4)
    print(layer(torch.randn(2, 9, 32)).shape)
