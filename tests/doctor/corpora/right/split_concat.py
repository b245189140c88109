"""layers and blocks in one file (split / concat naming)"""

import torch
from torch import nn


class ScaleDotProductAttention(nn.Module):
    """expects (batch, head, length, d)"""

    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, q, k, v, mask=None, e=1e-12):
        score = torch.einsum("bhqd,bhkd->bhqk", q, k) / torch.tensor(k.size(-1), dtype=q.dtype).sqrt()
        if mask is not None:
            score = score.masked_fill(mask == 0, -1e10)
        score = self.softmax(score)
        return torch.einsum("bhqk,bhkd->bhqd", score, v), score


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head, self.attention = n_head, ScaleDotProductAttention()
        self.w_q, self.w_k, self.w_v = (
            nn.Linear(d_model, d_model),
            nn.Linear(d_model, d_model),
            nn.Linear(d_model, d_model),
        )
        self.w_concat = nn.Linear(d_model, d_model)

    def split(self, tensor):
        return torch.stack(tensor.chunk(self.n_head, dim=-1), dim=1)

    def concat(self, tensor):
        return torch.cat(list(tensor.unbind(dim=1)), dim=-1)

    def forward(self, q, k, v, mask=None):
        out, _ = self.attention(self.split(self.w_q(q)), self.split(self.w_k(k)), self.split(self.w_v(v)), mask)
        return self.w_concat(self.concat(out))


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-12):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        var, mean = torch.var_mean(x, -1, unbiased=False, keepdim=True)
        return self.gamma * (x - mean) * torch.rsqrt(var + self.eps) + self.beta


class FeedForward(nn.Module):
    def __init__(self, d_model, hidden):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, hidden), nn.Linear(hidden, d_model)

    def forward(self, x):
        return self.linear2(self.linear1(x).clamp(min=0))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, ffn_hidden, n_head, drop_prob):
        super().__init__()
        self.attention, self.ffn = MultiHeadAttention(d_model, n_head), FeedForward(d_model, ffn_hidden)
        self.norm1, self.norm2 = LayerNorm(d_model), LayerNorm(d_model)
        self.dropout1, self.dropout2 = nn.Dropout(drop_prob), nn.Dropout(drop_prob)

    def forward(self, x, src_mask):
        x = self.norm1(x + self.dropout1(self.attention(q=x, k=x, v=x, mask=src_mask)))
        return self.norm2(x + self.dropout2(self.ffn(x)))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, ffn_hidden, n_head, drop_prob):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_head)
        self.enc_dec_attention = MultiHeadAttention(d_model, n_head)
        self.ffn = FeedForward(d_model, ffn_hidden)
        self.norm1, self.norm2, self.norm3 = LayerNorm(d_model), LayerNorm(d_model), LayerNorm(d_model)
        self.dropout = nn.Dropout(drop_prob)

    def forward(self, dec, enc, trg_mask, src_mask):
        x = self.norm1(dec + self.dropout(self.self_attention(dec, dec, dec, trg_mask)))
        if enc is not None:
            x = self.norm2(x + self.dropout(self.enc_dec_attention(x, enc, enc, src_mask)))
        return self.norm3(x + self.dropout(self.ffn(x)))


class PositionalEncoding(nn.Module):
    """gives the table, adding is up to the caller"""

    def __init__(self, d_model, max_len, device):
        super().__init__()
        two_i = torch.arange(0, d_model, 2, device=device)
        angle = torch.arange(max_len, device=device).view(-1, 1) / torch.pow(10000.0, two_i / d_model)
        self.encoding = torch.zeros(max_len, d_model, device=device)
        self.encoding[:, ::2], self.encoding[:, 1::2] = torch.sin(angle), torch.cos(angle)

    def forward(self, x):
        return self.encoding[: x.shape[1]]
