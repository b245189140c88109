import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttn(nn.Module):
    def __init__(self, d, nhead):
        super().__init__()
        self.nhead = nhead
        self.in_q, self.in_k, self.in_v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.out = nn.Linear(d, d)

    def forward(self, q, kv, block=None):
        N, L, E = q.shape
        S = kv.shape[1]
        hd = E // self.nhead
        Q = self.in_q(q).reshape(N, L, self.nhead, hd).transpose(1, 2)
        K = self.in_k(kv).reshape(N, S, self.nhead, hd).transpose(1, 2)
        V = self.in_v(kv).reshape(N, S, self.nhead, hd).transpose(1, 2)
        A = torch.matmul(Q, K.transpose(2, 3)).div(hd ** 0.5)
        if block is not None:
            A = A.masked_fill(block, float("-inf"))
        return self.out(torch.matmul(F.softmax(A, -1), V).transpose(1, 2).reshape(N, L, E))


class DecoderLayer(nn.Module):
    def __init__(self, d_model=32, nhead=4, ff=64, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttn(d_model, nhead)
        self.multihead_attn = MultiHeadAttn(d_model, nhead)
        self.linear1, self.linear2 = nn.Linear(d_model, ff), nn.Linear(ff, d_model)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, tgt, memory, tgt_key_padding_mask=None, memory_key_padding_mask=None):
        L = tgt.shape[1]
        block = torch.triu(torch.ones(L, L, dtype=torch.bool, device=tgt.device), 1)
        if tgt_key_padding_mask is not None:
            block = block | tgt_key_padding_mask[:, None, None, :]
        mem_block = None if memory_key_padding_mask is None else memory_key_padding_mask[:, None, None, :]
        x = self.norm1(tgt + self.dropout(self.self_attn(tgt, tgt, block)))
        x = self.norm2(x + self.dropout(self.multihead_attn(x, memory, mem_block)))
        return self.norm3(x + self.dropout(self.linear2(self.dropout(F.relu(self.linear1(x))))))
