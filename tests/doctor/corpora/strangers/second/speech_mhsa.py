import torch
from torch import nn
import torch.nn.functional as F

CFG = {"d": 80, "heads": 4, "p": 0.1, "ff": 160}


class MHSA(nn.Module):
    """Multi-head self attention over acoustic frames (B, T, d)."""

    def __init__(self, cfg):
        super().__init__()
        self.d, self.heads = cfg["d"], cfg["heads"]
        assert self.d % self.heads == 0, "d must be divisible by heads"
        self.in_proj = nn.Linear(self.d, 3 * self.d)
        self.out_proj = nn.Linear(self.d, self.d)
        self.drop = nn.Dropout(cfg["p"])

    def forward(self, frames, lengths=None):
        q, k, v = self.in_proj(frames).chunk(3, dim=-1)
        att = torch.einsum("btd,bsd->bts", q, k) * q.shape[-1] ** -0.5
        if lengths is not None:
            pad = torch.arange(frames.size(1))[None, :] >= lengths[:, None]
            att = att.masked_fill(pad[:, None, :], float("-inf"))
        att = self.drop(F.softmax(att, dim=-1))
        return self.out_proj(torch.einsum("bts,bsd->btd", att, v))


class EncoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg["d"]), nn.LayerNorm(cfg["d"])
        self.att = MHSA(cfg)
        self.ff = nn.Sequential(nn.Linear(cfg["d"], cfg["ff"]), nn.SiLU(), nn.Linear(cfg["ff"], cfg["d"]))

    def forward(self, x, lengths=None):
        x = x + self.att(self.n1(x), lengths)
        return x + self.ff(self.n2(x))


layer = EncoderLayer(CFG).eval()
print(layer(torch.randn(2, 30, 80), torch.tensor([30, 21])).shape)
