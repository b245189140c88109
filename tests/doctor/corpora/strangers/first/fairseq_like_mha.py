import torch
from torch import nn


class MultiheadAttention(nn.Module):
    """Input shape: Time x Batch x Channel"""

    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim ** -0.5
        self.dropout = nn.Dropout(dropout)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, key_padding_mask=None):
        """key_padding_mask: (batch, src_len), True for padding"""
        tgt_len, bsz, embed_dim = query.size()
        src_len = key.size(0)
        q = self.q_proj(query) * self.scaling
        k, v = self.k_proj(key), self.v_proj(value)
        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.contiguous().view(src_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.contiguous().view(src_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        attn_weights = torch.bmm(q, k.transpose(1, 2))
        if key_padding_mask is not None:
            pad = torch.cat([key_padding_mask] * self.num_heads, dim=0)
            attn_weights = attn_weights.masked_fill(pad.unsqueeze(1), float("-inf"))
        attn = self.dropout(torch.softmax(attn_weights, dim=-1))
        out = torch.bmm(attn, v).transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        return self.out_proj(out)


if __name__ == "__main__":
    m = MultiheadAttention(32, 4)
    mem = torch.randn(7, 3, 32)
    pad = torch.arange(7)[None] >= torch.tensor([7, 4, 5])[:, None]
    print(m(torch.randn(5, 3, 32), mem, mem, pad).shape)
