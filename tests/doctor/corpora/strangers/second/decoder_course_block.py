import torch
import torch.nn as nn


class DecoderLayer(nn.Module):
    """Pre-LN decoder layer: masked self-attention, cross-attention, feed-forward."""

    def __init__(self, d_model, n_heads, d_ff, max_len=128):
        super().__init__()
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.register_buffer("future", torch.ones(max_len, max_len, dtype=torch.bool).triu(1))

    def forward(self, tgt, memory, memory_pad=None):
        n = tgt.size(1)
        residual = tgt
        y = self.ln1(tgt)
        y = self.self_attn(y, y, y, attn_mask=self.future[:n, :n], need_weights=False)[0]
        y = residual + y

        y = self.ln2(y)
        residual = y
        y = self.cross_attn(y, memory, memory, key_padding_mask=memory_pad, need_weights=False)[0]
        y = residual + y

        residual = y
        y = self.ff(self.ln3(y))
        return residual + y


if __name__ == "__main__":
    layer = DecoderLayer(32, 4, 64)
    print(layer(torch.randn(2, 5, 32), torch.randn(2, 7, 32)).shape)
