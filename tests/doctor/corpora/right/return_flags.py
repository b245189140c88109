import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int = 512, num_heads: int = 8, dropout_rate: float = 0.1, use_bias: bool = True):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.d_head = d_model // num_heads
        self.dropout_rate = dropout_rate
        self.Q = nn.Linear(d_model, d_model, bias=use_bias)
        self.K = nn.Linear(d_model, d_model, bias=use_bias)
        self.V = nn.Linear(d_model, d_model, bias=use_bias)
        self.O = nn.Linear(d_model, d_model, bias=use_bias)

    def forward(self, q, k, v, mask=None, training=False, return_weights=False, return_logits=False):
        """mask: (batch, 1, 1, n_k) or (batch, 1, n_q, n_k), 1 keeps"""
        B = q.shape[0]
        to_heads = lambda t: t.reshape(B, t.shape[1], self.num_heads, self.d_head).transpose(1, 2)
        q, k, v = to_heads(self.Q(q)), to_heads(self.K(k)), to_heads(self.V(v))
        logits = torch.einsum("bhid,bhjd->bhij", q, k).div(self.d_head**0.5)
        if mask is not None:
            logits = logits.masked_fill(mask.eq(0), torch.finfo(logits.dtype).min)
        weights = F.softmax(logits, dim=-1)
        if training:
            weights = F.dropout(weights, p=self.dropout_rate, training=True)
        out = torch.einsum("bhij,bhjd->bihd", weights, v).flatten(2)
        out = self.O(out)
        if return_weights and return_logits:
            return out, weights, logits
        if return_weights:
            return out, weights
        return out
