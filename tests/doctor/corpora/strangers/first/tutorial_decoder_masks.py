import math
import torch
import torch.nn as nn


def attend(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return scores.masked_fill(mask == 0, -1e9).softmax(-1) @ v


class MultiHead(nn.Module):
    def __init__(self, d_model, n):
        super().__init__()
        self.n = n
        self.proj = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])

    def forward(self, q, k, v, mask):
        q, k, v = [p(t).view(t.size(0), t.size(1), self.n, -1).transpose(1, 2)
                   for p, t in zip(self.proj, (q, k, v))]
        o = attend(q, k, v, mask).transpose(1, 2)
        return self.proj[3](o.reshape(o.size(0), o.size(1), -1))


class DecoderLayer(nn.Module):
    """x: (B, T, d), enc_out: (B, S, d), src_mask: (B, 1, 1, S), tgt_mask: (B, 1, T, T); 0 = hidden"""

    def __init__(self, d_model=32, n=4, d_ff=64):
        super().__init__()
        self.self_attn = MultiHead(d_model, n)
        self.cross_attn = MultiHead(d_model, n)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, enc_out, src_mask, tgt_mask):
        x = self.norm1(x + self.self_attn(x, x, x, tgt_mask))
        x = self.norm2(x + self.cross_attn(x, enc_out, enc_out, tgt_mask))
        return self.norm3(x + self.feed_forward(x))


if __name__ == "__main__":
    B, N = 2, 6
    src_mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1] * 6])[:, None, None, :]
    tgt_mask = torch.tril(torch.ones(1, 1, N, N))
    print(DecoderLayer()(torch.randn(B, N, 32), torch.randn(B, N, 32), src_mask, tgt_mask).shape)
