import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, hidden, heads, p_drop):
        super().__init__()
        assert hidden % heads == 0
        self.heads = heads
        self.lin_q = nn.Linear(hidden, hidden)
        self.lin_k = nn.Linear(hidden, hidden)
        self.lin_v = nn.Linear(hidden, hidden)
        self.lin_o = nn.Linear(hidden, hidden)
        self.drop = nn.Dropout(p_drop)

    def forward(self, h, lengths):
        B, T, C = h.size()
        shape = (B, T, self.heads, C // self.heads)
        q = self.lin_q(h).view(shape).permute(0, 2, 1, 3)
        k = self.lin_k(h).view(shape).permute(0, 2, 1, 3)
        v = self.lin_v(h).view(shape).permute(0, 2, 1, 3)
        score = torch.matmul(q, k.transpose(2, 3)) / (C // self.heads) ** 0.5
        steps = torch.arange(T, device=h.device)
        padding = steps.view(1, 1, 1, T) >= lengths.view(B, 1, 1, 1)
        score = score.masked_fill(padding, -1e4 if score.dtype == torch.float16 else -1e9)
        ctx = torch.matmul(self.drop(score.softmax(dim=-1)), v)
        return self.lin_o(ctx.permute(0, 2, 1, 3).reshape(B, T, C))


class MiniBERT(nn.Module):
    def __init__(self, vocab=100, hidden=36, heads=3, layers=2, max_len=64, p_drop=0.1):
        super().__init__()
        self.word = nn.Embedding(vocab, hidden)
        self.position = nn.Embedding(max_len, hidden)
        self.segment = nn.Embedding(2, hidden)
        self.emb_norm = nn.LayerNorm(hidden)
        self.attn = nn.ModuleList([SelfAttention(hidden, heads, p_drop) for _ in range(layers)])
        self.norm1 = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(layers)])
        self.ffn = nn.ModuleList([nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(),
                                                nn.Linear(4 * hidden, hidden)) for _ in range(layers)])
        self.norm2 = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(layers)])
        self.pooler = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh())

    def forward(self, ids, segments, lengths):
        pos = torch.arange(ids.size(1), device=ids.device)
        h = self.emb_norm(self.word(ids) + self.position(pos) + self.segment(segments))
        for attn, n1, ffn, n2 in zip(self.attn, self.norm1, self.ffn, self.norm2):
            h = n1(h + attn(h, lengths))
            h = n2(h + ffn(h))
        return h, self.pooler(h[:, 0])
