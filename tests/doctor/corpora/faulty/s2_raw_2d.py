"""Notes on attention, step by step, for one sentence (no batch)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(123)

sentence = "Rivers run slow, roads run fast"
dc = {s: i for i, s in enumerate(sorted(sentence.replace(",", "").split()))}
sentence_int = torch.tensor([dc[s] for s in sentence.replace(",", "").split()])
embed = torch.nn.Embedding(50000, 16)
embedded_sentence = embed(sentence_int).detach()


class SelfAttention(nn.Module):
    def __init__(self, d_in, d_out_kq, d_out_v):
        super().__init__()
        self.d_out_kq = d_out_kq
        self.W_query = nn.Parameter(torch.rand(d_in, d_out_kq))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out_kq))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out_v))

    def forward(self, x):
        keys = x @ self.W_key
        queries = x @ self.W_query
        values = x @ self.W_value
        attn_scores = queries @ keys.T
        attn_weights = F.softmax(attn_scores, dim=-1)
        return attn_weights @ values


sa = SelfAttention(16, 2, 4)
print(sa(embedded_sentence))
