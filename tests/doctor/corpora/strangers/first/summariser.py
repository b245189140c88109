import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, dim, h):
        super().__init__()
        self.h = h
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wkv = nn.Linear(dim, dim * 2, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, a, b, keep):
        # a attends to b, keep (batch, len_b) is True for real tokens of b
        q = self.wq(a).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.wkv(b).chunk(2, -1))
        logits = q @ k.mT * q.size(-1) ** -0.5
        logits = logits.masked_fill(~keep[:, None, None, :], torch.finfo(logits.dtype).min)
        return self.wo((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


class CrossBlock(nn.Module):
    """Summary tokens read the article. Both are padded to the same length."""

    def __init__(self, dim=32, h=4):
        super().__init__()
        self.ln_a, self.ln_b = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.self_attn, self.cross_attn = Attn(dim, h), Attn(dim, h)

    def forward(self, summary, article, summary_keep, article_keep):
        s = self.ln_a(summary)
        summary = summary + self.self_attn(s, s, summary_keep)
        s = self.ln_b(summary)
        return summary + self.cross_attn(s, article, summary_keep)


if __name__ == "__main__":
    L = 8
    s_keep = torch.arange(L)[None] < torch.tensor([3, 5])[:, None]
    a_keep = torch.arange(L)[None] < torch.tensor([8, 6])[:, None]
    print(CrossBlock()(torch.randn(2, L, 32), torch.randn(2, L, 32), s_keep, a_keep).shape)
