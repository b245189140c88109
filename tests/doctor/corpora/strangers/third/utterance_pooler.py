import torch
import torch.nn as nn
import torch.nn.functional as F


def make_mask(lengths, max_len):
    """(batch,) lengths of utterances in frames -> (batch, max_len), 1 inside the utterance"""
    steps = torch.arange(max_len, device=lengths.device)
    return (steps[None, :] < lengths[:, None]).float()


class FrameAttention(nn.Module):
    def __init__(self, feat_dim, n_heads=4, p=0.1):
        super().__init__()
        self.h = n_heads
        self.d_k = feat_dim // n_heads
        self.linear_q = nn.Linear(feat_dim, feat_dim)
        self.linear_k = nn.Linear(feat_dim, feat_dim)
        self.linear_v = nn.Linear(feat_dim, feat_dim)
        self.linear_out = nn.Linear(feat_dim, feat_dim)
        self.dropout = nn.Dropout(p)

    def forward(self, frames, lengths):
        b, t, f = frames.size()
        q = self.linear_q(frames).view(b, t, self.h, self.d_k).transpose(1, 2)
        k = self.linear_k(frames).view(b, t, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(frames).view(b, t, self.h, self.d_k).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.d_k ** 0.5
        mask = make_mask(lengths, t)
        attn = F.softmax(scores, dim=-1) * mask[:, None, None, :]
        x = torch.matmul(self.dropout(attn), v)
        x = x.transpose(1, 2).contiguous().view(b, t, f)
        return self.linear_out(x)
