import torch
from torch import nn


class SegmentMemoryAttention(nn.Module):
    def __init__(self, d_model=32, n_head=4, mem_len=6):
        super().__init__()
        self.n_head, self.d_head, self.mem_len = n_head, d_model // n_head, mem_len
        self.q_net = nn.Linear(d_model, d_model, bias=False)
        self.kv_net = nn.Linear(d_model, 2 * d_model, bias=False)
        self.o_net = nn.Linear(d_model, d_model, bias=False)

    def forward(self, w, mems=None):
        """w (B, qlen, D); mems (B, mlen, D) hidden states of earlier segments, no gradient"""
        cat = w if mems is None else torch.cat([mems, w], dim=1)
        B, qlen, D = w.shape
        klen = cat.size(1)
        mlen = klen - qlen
        q = self.q_net(w).view(B, qlen, self.n_head, self.d_head)
        k, v = self.kv_net(cat).view(B, klen, 2, self.n_head, self.d_head).unbind(2)
        score = torch.einsum('bind,bjnd->bnij', q, k).mul(self.d_head ** -0.5)
        dec_attn_mask = torch.triu(torch.ones(qlen, klen, device=w.device), diagonal=1 + mlen).bool()
        score = score.masked_fill(dec_attn_mask[None, None], float('-inf'))
        vec = torch.einsum('bnij,bjnd->bind', score.softmax(dim=-1), v).reshape(B, qlen, D)
        new_mems = cat[:, -self.mem_len:].detach()
        return self.o_net(vec), new_mems
