import math
import torch
import torch.nn as nn


def generate_square_subsequent_mask(sz):
    mask = (torch.triu(torch.ones(sz, sz)) == 1).transpose(0, 1)
    mask = mask.float().masked_fill(mask == 0, float('-inf')).masked_fill(mask == 1, float(0.0))
    return mask


class Attn(nn.Module):
    def __init__(self, ninp, nhead):
        super().__init__()
        self.nhead = nhead
        self.in_proj = nn.Linear(ninp, 3 * ninp)
        self.out_proj = nn.Linear(ninp, ninp)

    def forward(self, src, src_mask):
        # src: [seq_len, batch_size, ninp], src_mask: [seq_len, seq_len], added to the scores
        S, B, E = src.shape
        q, k, v = self.in_proj(src).chunk(3, dim=-1)
        q = q.reshape(S, B * self.nhead, E // self.nhead).transpose(0, 1)
        k = k.reshape(S, B * self.nhead, E // self.nhead).transpose(0, 1)
        v = v.reshape(S, B * self.nhead, E // self.nhead).transpose(0, 1)
        w = torch.baddbmm(src_mask.unsqueeze(0), q / math.sqrt(E // self.nhead), k.transpose(-2, -1))
        out = torch.bmm(w.softmax(dim=-1), v)
        return self.out_proj(out.transpose(0, 1).reshape(S, B, E))


mask = generate_square_subsequent_mask(5)
print(mask)
print(Attn(16, 2)(torch.randn(5, 3, 16), mask).shape)
