import torch
import torch.nn as nn
import torch.nn.functional as F

config = dict(vocab=100, dim=32, heads=4, max_len=64)


class SelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg["heads"]
        self.drop = nn.Dropout(0.1)
        self.merge = nn.Linear(cfg["dim"], cfg["dim"])

    def forward(self, x):
        b, t, c = x.shape
        q = k = v = x.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        z = z.transpose(1, 2).contiguous().view(b, t, c)
        return self.drop(self.merge(z))


class LM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg["vocab"], cfg["dim"])
        self.pos = nn.Embedding(cfg["max_len"], cfg["dim"])
        self.ln = nn.LayerNorm(cfg["dim"])
        self.att = SelfAttention(cfg)
        self.lnf = nn.LayerNorm(cfg["dim"])
        self.head = nn.Linear(cfg["dim"], cfg["vocab"])

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1), device=idx.device))
        x = x + self.att(self.ln(x))
        return self.head(self.lnf(x))


lm = LM(config)
print(lm(torch.randint(0, 100, (2, 12))).shape)
