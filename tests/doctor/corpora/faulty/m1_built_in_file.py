import torch
import torch.nn as nn
import torch.nn.functional as F

PAD = 0


def make_pad_mask(ids):
    """(batch, seq) -> (batch, 1, 1, seq)"""
    return (ids != PAD).unsqueeze(1).unsqueeze(2)


class Attention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads, self.d_head = heads, d_model // heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B = q.size(0)
        q = self.w_q(q).view(B, -1, self.heads, self.d_head).transpose(1, 2)
        k = self.w_k(k).view(B, -1, self.heads, self.d_head).transpose(1, 2)
        v = self.w_v(v).view(B, -1, self.heads, self.d_head).transpose(1, 2)
        score = (q @ k.transpose(2, 3)) / self.d_head**0.5
        if mask is not None:
            score = score.masked_fill(mask, -1e9)
        score = F.softmax(score, dim=-1)
        out = (score @ v).transpose(1, 2).contiguous().view(B, -1, self.heads * self.d_head)
        return self.w_o(out)


class SentimentModel(nn.Module):
    def __init__(self, vocab=1000, d_model=32, heads=4, classes=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model, padding_idx=PAD)
        self.attn = Attention(d_model, heads)
        self.norm = nn.LayerNorm(d_model)
        self.cls = nn.Linear(d_model, classes)

    def forward(self, ids):
        mask = make_pad_mask(ids)
        x = self.emb(ids)
        x = self.norm(x + self.attn(x, x, x, mask))
        return self.cls(x.mean(1))


if __name__ == "__main__":
    batch = torch.tensor([[4, 8, 15, 16, 0, 0], [23, 42, 4, 8, 15, 16]])
    print(SentimentModel()(batch))
