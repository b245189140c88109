"""tiny GPT, SimpleNamespace config, weight tying, everything in one go"""

import sys
import time
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = SimpleNamespace(vocab=96, ctx=64, d=48, heads=6, layers=3, p=0.1)
device = "mps" if torch.backends.mps.is_available() else "cpu"


class SelfAttn(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.H = cfg.heads
        self.wqkv = nn.Linear(cfg.d, 3 * cfg.d, bias=False)
        self.wo = nn.Linear(cfg.d, cfg.d, bias=False)
        self.p = cfg.p
        self.register_buffer("tri", torch.ones(cfg.ctx, cfg.ctx).triu(1).bool())

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.wqkv(x).view(b, t, 3, self.H, c // self.H).permute(2, 0, 3, 1, 4)
        s = (q @ k.mT) * (c // self.H) ** -0.5
        s = s.masked_fill(self.tri[:t, :t], float("-inf"))
        w = F.dropout(s.softmax(-1), self.p, self.training)
        return self.wo((w @ v).transpose(1, 2).reshape(b, t, c))


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.d), nn.LayerNorm(cfg.d)
        self.a = SelfAttn(cfg)
        self.f = nn.Sequential(nn.Linear(cfg.d, 4 * cfg.d), nn.GELU(), nn.Linear(4 * cfg.d, cfg.d), nn.Dropout(cfg.p))

    def forward(self, x):
        x = x + self.a(self.n1(x))
        return x + self.f(self.n2(x))


class TinyGPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.d)
        self.pos = nn.Parameter(torch.zeros(1, cfg.ctx, cfg.d))
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.ln = nn.LayerNorm(cfg.d)
        self.head = nn.Linear(cfg.d, cfg.vocab, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, idx):
        x = self.tok(idx) + self.pos[:, : idx.size(1)]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln(x))


text = open(sys.argv[1] if len(sys.argv) > 1 else "shakespeare.txt").read()
data = torch.tensor([min(ord(c), 126) - 31 if ord(c) >= 32 else 0 for c in text])
model = TinyGPT(cfg).to(device)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
t0 = time.time()
for step in range(2000):
    ix = torch.randint(len(data) - cfg.ctx - 1, (32,))
    xb = torch.stack([data[i : i + cfg.ctx] for i in ix]).to(device)
    yb = torch.stack([data[i + 1 : i + 1 + cfg.ctx] for i in ix]).to(device)
    loss = F.cross_entropy(model(xb).flatten(0, 1), yb.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 4), f"{time.time() - t0:.1f}s")
torch.save(model.state_dict(), "tiny.pt")
