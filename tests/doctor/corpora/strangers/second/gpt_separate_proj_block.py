import torch
import torch.nn as nn
import torch.nn.functional as F

settings = {"width": 48, "heads": 6, "context": 64}


class GPTBlock(nn.Module):
    def __init__(self, s):
        super().__init__()
        w = s["width"]
        self.heads = s["heads"]
        self.ln1, self.ln2 = nn.LayerNorm(w), nn.LayerNorm(w)
        self.Wq, self.Wk, self.Wv, self.Wo = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.mlp = nn.Sequential(nn.Linear(w, 4 * w), nn.GELU(), nn.Linear(4 * w, w))
        self.register_buffer("hide", torch.ones(s["context"], s["context"]).triu(1).bool())

    def forward(self, x):
        B, T, C = x.shape
        split = lambda t: t.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        # pre-norm attention
        q = split(self.Wq(self.ln1(x)))
        k = split(self.Wk(x))
        v = split(self.Wv(x))
        s = (q @ k.transpose(-1, -2)) * (C // self.heads) ** -0.5
        s = s.masked_fill(self.hide[:T, :T], float("-inf"))
        y = (F.softmax(s, dim=-1) @ v).transpose(1, 2).reshape(B, T, C)
        x = x + self.Wo(y)
        return x + self.mlp(self.ln2(x))


block = GPTBlock(settings)
print(block(torch.randn(2, 10, 48)).shape)
