import math
import torch
from torch import nn


class SetAttention(nn.Module):
    """Attention among the elements of a set. Input (sets, elements, features)."""

    def __init__(self, features, hidden):
        super().__init__()
        self.hidden = hidden
        self.wq = nn.Parameter(torch.randn(features, hidden) / math.sqrt(features))
        self.wk = nn.Parameter(torch.randn(features, hidden) / math.sqrt(features))
        self.wv = nn.Parameter(torch.randn(features, features) / math.sqrt(features))

    def forward(self, s):
        q = s @ self.wq
        k = s @ self.wk
        v = s @ self.wv
        logits = torch.matmul(q, k.T) / math.sqrt(self.hidden)
        return s + torch.matmul(logits.softmax(-1), v)


layer = SetAttention(features=12, hidden=6)
print(layer(torch.randn(6, 6, 12)).mean(dim=1).shape)
