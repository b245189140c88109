import torch
import torch.nn as nn


class MultiHeadSelfAttention(nn.Module):
    """
    x:    [batch, seq, d_model]
    mask: [batch, seq], 1 for tokens and 0 for <pad>
    """

    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} not divisible by num_heads {num_heads}")
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        bs, seq, _ = x.shape
        q = self.wq(x).view(bs, seq, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        k = self.wk(x).view(bs, seq, self.num_heads, self.head_dim).permute(0, 2, 3, 1)  # already transposed
        v = self.wv(x).view(bs, seq, self.num_heads, self.head_dim).permute(0, 2, 1, 3)

        att = torch.matmul(q, k) / self.head_dim**0.5
        if mask is not None:
            m = mask[:, None, None, :]  # broadcast over heads and queries
            att = att.masked_fill(m == 0, float("-inf"))
        att = att.softmax(dim=-1)
        self.last_attention = att.detach()
        z = self.drop(att) @ v
        z = z.permute(0, 2, 1, 3).reshape(bs, seq, self.d_model)
        return self.fc(z)
