import torch
import torch.nn as nn
import torch.nn.functional as F


class ASRDecoderLayer(nn.Module):
    """Text tokens (B, T, d) read acoustic frames (B, S, d); frame_keep (B, S) True = real frame."""

    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.q2, self.kv2 = nn.Linear(d, d), nn.Linear(d, 2 * d)
        self.o1, self.o2 = nn.Linear(d, d), nn.Linear(d, d)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def split(self, t):
        return t.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def forward(self, text, frames, frame_keep, text_keep):
        T = text.size(1)
        self_mask = text_keep[:, None, None, :] & torch.ones(T, T, dtype=torch.bool, device=text.device).tril()
        q, k, v = map(self.split, self.qkv(self.n1(text)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self_mask)
        text = text + self.o1(y.transpose(1, 2).flatten(2))
        q = self.split(self.q2(self.n2(text)))
        k, v = map(self.split, self.kv2(frames).chunk(2, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self_mask)
        return text + self.o2(y.transpose(1, 2).flatten(2))


if __name__ == "__main__":
    keep_f = torch.arange(10)[None] < torch.tensor([10, 6])[:, None]
    keep_t = torch.arange(10)[None] < torch.tensor([8, 10])[:, None]
    print(ASRDecoderLayer()(torch.randn(2, 10, 32), torch.randn(2, 10, 32), keep_f, keep_t).shape)
