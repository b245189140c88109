import torch
import torch.nn as nn


class DecoderLayer(nn.Module):
    """Post-norm decoder layer from the original paper."""

    def __init__(self, d_model=40, n_head=4, d_ff=80, p=0.1, max_len=100):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_head, dropout=p, batch_first=True)
        self.src_attn = nn.MultiheadAttention(d_model, n_head, dropout=p, batch_first=True)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(p), nn.Linear(d_ff, d_model))
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(p)
        self.register_buffer("subsequent", torch.triu(torch.ones(max_len, max_len, dtype=torch.bool), 1))

    def forward(self, x, memory, src_pad=None):
        n = x.size(1)
        a, _ = self.self_attn(x, x, x, attn_mask=self.subsequent[:n, :n], need_weights=False)
        x = self.norm1(x + self.dropout(a))
        a, _ = self.src_attn(x, memory, memory, key_padding_mask=src_pad, need_weights=False)
        x = self.norm2(x + self.dropout(a))
        x = self.norm2(x + self.dropout(self.feed_forward(x)))
        return x


if __name__ == "__main__":
    print(DecoderLayer()(torch.randn(2, 5, 40), torch.randn(2, 8, 40)).shape)
