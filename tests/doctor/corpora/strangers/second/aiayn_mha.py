import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_head, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k = n_head, d_model // n_head
        self.w_qs = nn.Linear(d_model, d_model, bias=False)
        self.w_ks = nn.Linear(d_model, d_model, bias=False)
        self.w_vs = nn.Linear(d_model, d_model, bias=False)
        self.fc = nn.Linear(d_model, d_model, bias=False)
        self.p = dropout

    def forward(self, q, k, v, mask=None):
        b, len_q, len_k = q.size(0), q.size(1), k.size(1)
        q = self.w_qs(q).view(b, len_q, self.n_head, self.d_k).transpose(1, 2)
        k = self.w_ks(k).view(b, len_k, self.n_head, self.d_k).transpose(1, 2)
        v = self.w_vs(v).view(b, len_k, self.n_head, self.d_k).transpose(1, 2)
        attn = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.d_k)
        if mask is not None:
            attn = attn.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        attn = F.dropout(F.softmax(attn, dim=-1), p=self.p)
        out = torch.matmul(attn, v).transpose(1, 2).contiguous().view(b, len_q, -1)
        return self.fc(out)


if __name__ == "__main__":
    x = torch.randn(2, 7, 32)
    model = MultiHeadAttention(32, 4).eval()
    print(model(x, x, x).shape)
