import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads, d_model, d_k, d_v):
        super().__init__()
        self.num_heads, self.d_k, self.d_v = num_heads, d_k, d_v
        self.w_q = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.w_k = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.w_v = nn.Linear(d_model, num_heads * d_v, bias=False)
        self.fc = nn.Linear(num_heads * d_v, d_model, bias=False)

    def forward(self, q, k, v):
        bsz, n, m = q.size(0), q.size(1), k.size(1)
        # heads go in front of the batch, then both are one axis
        q = self.w_q(q).view(bsz, n, self.num_heads, self.d_k).permute(2, 0, 1, 3).reshape(-1, n, self.d_k)
        k = self.w_k(k).view(bsz, m, self.num_heads, self.d_k).permute(2, 0, 1, 3).reshape(-1, m, self.d_k)
        v = self.w_v(v).view(bsz, m, self.num_heads, self.d_v).permute(2, 0, 1, 3).reshape(-1, m, self.d_v)

        attn = F.softmax(q @ k.transpose(1, 2) / self.d_k**0.5, dim=-1)
        out = attn @ v

        out = out.view(bsz, self.num_heads, n, self.d_v).transpose(1, 2).reshape(bsz, n, -1)
        return self.fc(out), attn
