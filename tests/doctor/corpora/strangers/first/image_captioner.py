import torch
import torch.nn as nn


class CaptionDecoder(nn.Module):
    """Decode a caption from image features.

    tokens: (B, T) word ids;  image_feats: (B, R, dim) region features
    """

    def __init__(self, vocab=200, dim=64, heads=4, max_len=30):
        super().__init__()
        self.word = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.self_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.img_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.out = nn.Linear(dim, vocab)

    def forward(self, tokens, image_feats):
        T = tokens.size(1)
        causal = torch.ones(T, T, dtype=torch.bool, device=tokens.device).triu(1)
        x = self.word(tokens) + self.pos(torch.arange(T, device=tokens.device))
        h, _ = self.self_attn(x, x, x, attn_mask=causal)
        x = self.ln1(x + h)
        h, _ = self.img_attn(x, x, x, attn_mask=causal)
        x = self.ln2(x + h)
        x = self.ln3(x + self.ffn(x))
        return self.out(x)


if __name__ == "__main__":
    dec = CaptionDecoder()
    print(dec(torch.randint(0, 200, (2, 9)), torch.randn(2, 36, 64)).shape)
