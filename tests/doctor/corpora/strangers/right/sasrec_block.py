import torch
import torch.nn as nn


class SASRecLayer(nn.Module):
    def __init__(self, hidden, heads, p):
        super().__init__()
        self.heads = heads
        self.attn_norm, self.ffn_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attn = nn.MultiheadAttention(hidden, heads, p)
        self.ffn = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.Dropout(p))

    def forward(self, x, blocked):
        h = self.attn_norm(x).transpose(0, 1)              # (N, T, C) -> (T, N, C)
        m = blocked.repeat_interleave(self.heads, dim=0)   # (N * heads, T, T)
        h, _ = self.attn(h, h, h, attn_mask=m, need_weights=False)
        x = x + h.transpose(0, 1)
        return x + self.ffn(self.ffn_norm(x))


class SASRec(nn.Module):
    def __init__(self, item_num=50, maxlen=12, hidden=32, heads=2, blocks=2, p=0.2):
        super().__init__()
        self.item_emb = nn.Embedding(item_num + 1, hidden, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen, hidden)
        self.layers = nn.ModuleList(SASRecLayer(hidden, heads, p) for _ in range(blocks))
        self.last = nn.LayerNorm(hidden)
        self.drop = nn.Dropout(p)

    def forward(self, log_seqs):
        """log_seqs (N, T) item ids, 0 = padding on the left"""
        N, T = log_seqs.shape
        x = self.drop(self.item_emb(log_seqs) + self.pos_emb(torch.arange(T, device=log_seqs.device)))
        # True = blocked: the future, and padded items; everybody may see itself
        future = ~torch.tril(torch.ones(T, T, dtype=torch.bool, device=x.device))
        blocked = future[None] | (log_seqs == 0)[:, None, :]
        blocked = blocked & ~torch.eye(T, dtype=torch.bool, device=x.device)
        for layer in self.layers:
            x = layer(x, blocked)
        return self.last(x)
