import torch
import torch.nn as nn
import torch.nn.functional as F


class BahdanauAttention(nn.Module):
    """Additive attention for the seq2seq decoder.

    query:  (batch, hidden)        last decoder state
    values: (batch, steps, hidden) encoder states
    mask:   (batch, steps)         1 = real
    """

    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, values, mask=None):
        scores = self.Va(torch.tanh(self.Wa(query).unsqueeze(1) + self.Ua(values))).squeeze(-1)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        context = torch.bmm(weights.unsqueeze(1), values).squeeze(1)
        return context, weights


class LuongAttention(nn.Module):
    """Luong's 'dot' needs no scale in the paper; we use the 'scaled dot' variant"""

    def forward(self, hidden, encoder_outputs):
        # hidden (B, H), encoder_outputs (B, T, H)
        e = torch.einsum("bh,bth->bt", hidden, encoder_outputs) / hidden.size(-1) ** 0.5
        a = e.softmax(dim=1)
        return torch.einsum("bt,bth->bh", a, encoder_outputs), a
