import torch
import torch.nn as nn


class SeqFirstAttention(nn.Module):
    """All tensors are (seq, batch, dim), as the RNNs had it."""

    def __init__(self, d_model, nhead, dropout=0.0):
        super().__init__()
        self.nhead = nhead
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, src, src_mask=None):
        # src_mask: (seq, seq) additive
        S, B, E = src.shape
        hd = E // self.nhead
        q, k, v = self.in_proj(src).chunk(3, dim=-1)
        q = q.contiguous().view(S, B, self.nhead, hd)
        k = k.contiguous().view(S, B, self.nhead, hd)
        v = v.contiguous().view(S, B, self.nhead, hd)
        att = torch.einsum("ibhd,jbhd->bhij", q, k) * hd**-0.5
        if src_mask is not None:
            att = att + src_mask
        att = self.drop(att.softmax(-1))
        out = torch.einsum("bhij,jbhd->ibhd", att, v).reshape(S, B, E)
        return self.out_proj(out)
