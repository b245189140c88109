import torch
import torch.nn as nn


class EncoderLayer(nn.Module):
    """Post-norm encoder layer, x: (batch, seq, d_model)"""

    def __init__(self, d_model=64, num_heads=4, d_ff=256):
        super().__init__()
        self.d_model = d_model
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def add_and_norm(self, x, sublayer_out):
        norm = nn.LayerNorm(self.d_model)
        return norm(x + sublayer_out)

    def forward(self, x):
        attn_out, _ = self.attention(x, x, x)
        x = self.add_and_norm(x, attn_out)
        return self.add_and_norm(x, self.ffn(x))


if __name__ == "__main__":
    print(EncoderLayer()(torch.randn(2, 7, 64)).shape)
