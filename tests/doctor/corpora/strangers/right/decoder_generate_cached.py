import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)

    def forward(self, x, past=None):
        B, n, d = x.shape
        q, k, v = (t.view(B, n, self.h, d // self.h).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        m = k.size(2)
        # bottom right aligned: query i sits at absolute position m - n + i
        keep = torch.ones(n, m, dtype=torch.bool, device=x.device).tril(diagonal=m - n)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.o(y.transpose(1, 2).reshape(B, n, d)), (k, v)


class TinyLM(nn.Module):
    def __init__(self, vocab=30, d=32, h=4, layers=2, ctx=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))
        self.attns = nn.ModuleList(CausalAttention(d, h) for _ in range(layers))
        self.ffs = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
                                 for _ in range(layers))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids, past=None):
        start = 0 if past is None else past[0][0].size(2)
        x = self.tok(ids) + self.pos(torch.arange(start, start + ids.size(1), device=ids.device))
        new = []
        for i, (n, a, f) in enumerate(zip(self.norms, self.attns, self.ffs)):
            y, kv = a(n(x), None if past is None else past[i])
            new.append(kv)
            x = x + y
            x = x + f(x)
        return self.head(x), new

    @torch.no_grad()
    def generate(self, ids, steps):
        logits, past = self(ids)
        for _ in range(steps):
            nxt = logits[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, nxt], 1)
            logits, past = self(nxt, past)
        return ids


torch.manual_seed(0)
print(TinyLM().generate(torch.tensor([[1, 2, 3]]), 5))
