import torch
import torch.nn as nn


class MHA(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))

    def forward(self, q, kv, mask):
        def sp(t):
            return t.view(t.size(0), t.size(1), self.h, -1).transpose(1, 2)
        q, k, v = sp(self.wq(q)), sp(self.wk(kv)), sp(self.wv(kv))
        e = (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5).masked_fill(mask == 0, -1e10)
        return self.wo((e.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    def __init__(self, src_vocab=50, trg_vocab=60, src_pad_idx=0, trg_pad_idx=1, d=32, h=4, max_len=40):
        super().__init__()
        self.src_pad_idx, self.trg_pad_idx = src_pad_idx, trg_pad_idx
        self.src_emb, self.trg_emb = nn.Embedding(src_vocab, d), nn.Embedding(trg_vocab, d)
        self.pos = nn.Embedding(max_len, d)
        self.enc_attn, self.dec_attn, self.cross_attn = MHA(d, h), MHA(d, h), MHA(d, h)
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(3)])
        self.fc_out = nn.Linear(d, trg_vocab)

    def make_src_mask(self, src):
        return (src != self.src_pad_idx)[:, None, None, :]

    def make_trg_mask(self, trg):
        n = trg.size(1)
        pad = (trg != self.src_pad_idx)[:, None, None, :]
        return pad & torch.tril(torch.ones(n, n, device=trg.device)).bool()

    def embed(self, table, ids):
        return table(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))

    def forward(self, src, trg):
        src_mask, trg_mask = self.make_src_mask(src), self.make_trg_mask(trg)
        x = self.embed(self.src_emb, src)
        x = self.norms[0](x + self.enc_attn(x, x, src_mask))
        y = self.embed(self.trg_emb, trg)
        y = self.norms[1](y + self.dec_attn(y, y, trg_mask))
        y = self.norms[2](y + self.cross_attn(y, x, src_mask))
        return self.fc_out(y)


if __name__ == "__main__":
    src = torch.tensor([[5, 6, 2, 0, 0], [8, 7, 3, 4, 2]])
    trg = torch.tensor([[2, 4, 9, 3], [2, 8, 3, 1]])
    print(Transformer()(src, trg).shape)
