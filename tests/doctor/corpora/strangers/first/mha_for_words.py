import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=64, h=8):
        super().__init__()
        self.h = h
        self.d_k = d_model // h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        """mask: (batch, 1, len_k) -- 1 for words, 0 for <pad>"""
        bs = q.size(0)
        q = self.wq(q).view(bs, -1, self.h, self.d_k).transpose(1, 2)
        k = self.wk(k).view(bs, -1, self.h, self.d_k).transpose(1, 2)
        v = self.wv(v).view(bs, -1, self.h, self.d_k).transpose(1, 2)
        attn = F.softmax(torch.matmul(q, k.transpose(-2, -1)) / self.d_k ** 0.5, dim=-1)
        if mask is not None:
            attn = attn * mask.unsqueeze(1)
        out = torch.matmul(attn, v)
        return self.fc(out.transpose(1, 2).contiguous().view(bs, -1, self.h * self.d_k))


if __name__ == "__main__":
    tokens = torch.tensor([[5, 8, 2, 0, 0], [3, 9, 4, 6, 2]])
    mask = (tokens != 0).unsqueeze(1).float()
    x = nn.Embedding(10, 64)(tokens)
    print(MultiHeadAttention()(x, x, x, mask).shape)
