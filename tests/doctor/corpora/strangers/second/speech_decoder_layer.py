import torch
from torch import nn


class SpeechDecoderLayer(nn.Module):
    """T x B x C, layer norm before every sub-layer; the encoder output is already normalised."""

    def __init__(self, embed_dim=32, heads=4, ffn=64, max_len=64):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(embed_dim, heads)
        self.self_attn_layer_norm = nn.LayerNorm(embed_dim)
        self.encoder_attn = nn.MultiheadAttention(embed_dim, heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(embed_dim)
        self.fc1, self.fc2 = nn.Linear(embed_dim, ffn), nn.Linear(ffn, embed_dim)
        self.final_layer_norm = nn.LayerNorm(embed_dim)
        self.register_buffer("future", torch.ones(max_len, max_len, dtype=torch.bool).triu(1))

    def forward(self, x, encoder_out, encoder_padding_mask=None):
        n = x.size(0)
        residual = x
        q = self.self_attn_layer_norm(x)
        y, _ = self.self_attn(query=q, key=x, value=x, attn_mask=self.future[:n, :n])
        x = residual + y
        residual = x
        y, _ = self.encoder_attn(query=self.encoder_attn_layer_norm(x), key=encoder_out, value=encoder_out,
                                 key_padding_mask=encoder_padding_mask)
        x = residual + y
        return x + self.fc2(torch.relu(self.fc1(self.final_layer_norm(x))))


if __name__ == "__main__":
    print(SpeechDecoderLayer()(torch.randn(5, 2, 32), torch.randn(12, 2, 32)).shape)
