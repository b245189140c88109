import math
import torch
from torch import nn


def masked_softmax(X, valid_lens):
    """Perform softmax operation by masking elements on the last axis."""
    # X: 3D tensor (batch_size, no. of queries, no. of keys), valid_lens: 1D (batch_size,)
    if valid_lens is None:
        return nn.functional.softmax(X, dim=-1)
    maxlen = X.size(-1)
    keep = torch.arange(maxlen, device=X.device)[None, :] < valid_lens[:, None]
    torch.masked_fill(X, ~keep.unsqueeze(1), -1e6)
    return nn.functional.softmax(X, dim=-1)


class DotProductAttention(nn.Module):
    """Scaled dot product attention."""

    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    # queries: (batch_size, no. of queries, d), keys: (batch_size, no. of key-value pairs, d)
    def forward(self, queries, keys, values, valid_lens=None):
        d = queries.shape[-1]
        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(d)
        self.attention_weights = masked_softmax(scores, valid_lens)
        return torch.bmm(self.dropout(self.attention_weights), values)


queries = torch.normal(0, 1, (2, 1, 2))
keys = torch.normal(0, 1, (2, 10, 2))
values = torch.normal(0, 1, (2, 10, 4))
valid_lens = torch.tensor([2, 6])
attention = DotProductAttention(dropout=0.5)
attention.eval()
print(attention(queries, keys, values, valid_lens).shape)
