import torch
import torch.nn as nn
import torch.nn.functional as F

__all__ = ["MultiHeadAttention", "ScaledDotProductAttention"]


class ScaledDotProductAttention(nn.Module):
    def forward(self, query, key, value, mask=None):
        scores = query.matmul(key.transpose(-2, -1)) * query.size(-1) ** -0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return F.softmax(scores, dim=-1).matmul(value)


class MultiHeadAttention(nn.Module):
    """activation is applied to q, k and v after their projections"""

    def __init__(self, in_features, head_num, bias=True, activation=F.relu):
        super(MultiHeadAttention, self).__init__()
        if in_features % head_num:
            raise ValueError("{} features can't be shared by {} heads".format(in_features, head_num))
        self.head_num, self.activation = head_num, activation or (lambda t: t)
        self.linear_q = nn.Linear(in_features, in_features, bias)
        self.linear_k = nn.Linear(in_features, in_features, bias)
        self.linear_v = nn.Linear(in_features, in_features, bias)
        self.linear_o = nn.Linear(in_features, in_features, bias)

    def _to_batches(self, x):
        return torch.cat([head for head in x.unflatten(2, (self.head_num, -1)).transpose(1, 2)])

    def _from_batches(self, y):
        return torch.cat(y.unflatten(0, (-1, self.head_num)).unbind(1), dim=-1)

    def forward(self, q, k, v, mask=None):
        parts = ((self.linear_q, q), (self.linear_k, k), (self.linear_v, v))
        q, k, v = (self._to_batches(self.activation(lin(t))) for lin, t in parts)
        if mask is not None:  # (B, N, M): the heads of one sample are neighbours
            mask = mask.repeat_interleave(self.head_num, dim=0)
        return self.linear_o(self._from_batches(ScaledDotProductAttention()(q, k, v, mask)))

    @staticmethod
    def gen_history_mask(x):
        b, n, _ = x.size()
        return torch.ones(b, n, n).tril()
