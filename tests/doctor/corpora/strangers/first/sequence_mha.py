import math
import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, seq_len=12, d_model=32, n_heads=4):
        super().__init__()
        self.seq_len, self.n_heads = seq_len, n_heads
        self.d_head = d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x):
        batch = x.shape[0]

        def split(t):
            return t.view(batch, self.seq_len, self.n_heads, self.d_head).permute(0, 2, 1, 3)

        q, k, v = split(self.w_q(x)), split(self.w_k(x)), split(self.w_v(x))
        attn = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(self.d_head), dim=-1)
        out = (attn @ v).permute(0, 2, 1, 3).contiguous().view(batch, -1, self.n_heads * self.d_head)
        return self.w_o(out)


if __name__ == "__main__":
    print(MultiHeadAttention()(torch.randn(3, 12, 32)).shape)
