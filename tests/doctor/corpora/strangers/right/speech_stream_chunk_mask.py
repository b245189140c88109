import math
import torch
from torch import nn


def subsequent_chunk_mask(size, chunk_size, num_left_chunks=-1):
    """True = visible. Frames see their own chunk fully, and num_left_chunks to the left (-1: all)."""
    ret = torch.zeros(size, size, dtype=torch.bool)
    for i in range(size):
        if num_left_chunks < 0:
            start = 0
        else:
            start = max((i // chunk_size - num_left_chunks) * chunk_size, 0)
        ending = min((i // chunk_size + 1) * chunk_size, size)
        ret[i, start:ending] = True
    return ret


class StreamingMHA(nn.Module):
    def __init__(self, n_head, n_feat, chunk_size=4, left=1):
        super().__init__()
        self.d_k, self.h = n_feat // n_head, n_head
        self.chunk_size, self.left = chunk_size, left
        self.linear_q = nn.Linear(n_feat, n_feat)
        self.linear_k = nn.Linear(n_feat, n_feat)
        self.linear_v = nn.Linear(n_feat, n_feat)
        self.linear_out = nn.Linear(n_feat, n_feat)

    def forward(self, x, x_lens):
        B, T, F = x.shape
        q = self.linear_q(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        k = self.linear_k(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        keep = subsequent_chunk_mask(T, self.chunk_size, self.left).to(x.device)[None]
        keep = keep & (torch.arange(T, device=x.device)[None] < x_lens[:, None])[:, None]
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        mask = keep.unsqueeze(1).eq(0)
        scores = scores.masked_fill(mask, -float('inf'))
        attn = torch.softmax(scores, dim=-1).masked_fill(mask, 0.0)  # padded frames at the end get zeros
        x = torch.matmul(attn, v).transpose(1, 2).contiguous().view(B, T, F)
        return self.linear_out(x)
