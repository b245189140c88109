import torch
import torch.nn.functional as F
from torch import nn


def hide_future(dot):
    rows, columns = torch.triu_indices(dot.size(-2), dot.size(-1), offset=1)
    dot[..., rows, columns] = float("-inf")


class SelfAttentionWide(nn.Module):
    """
    Multi-head self attention, batch and heads folded into one dimension so that everything is a bmm.
    """

    def __init__(self, emb, heads=8, mask=False):
        super().__init__()
        assert emb % heads == 0
        self.emb = emb
        self.heads = heads
        self.mask = mask

        self.tokeys = nn.Linear(emb, emb, bias=False)
        self.toqueries = nn.Linear(emb, emb, bias=False)
        self.tovalues = nn.Linear(emb, emb, bias=False)
        self.unifyheads = nn.Linear(emb, emb)

    def forward(self, x):
        b, t, e = x.size()
        h = self.heads
        s = e // h

        keys = self.tokeys(x).view(b, t, h, s)
        queries = self.toqueries(x).view(b, t, h, s)
        values = self.tovalues(x).view(b, t, h, s)

        keys = keys.transpose(1, 2).contiguous().view(b * h, t, s)
        queries = queries.transpose(1, 2).contiguous().view(b * h, t, s)
        values = values.transpose(1, 2).contiguous().view(b * h, t, s)

        # half of the scaling on either side keeps the numbers small
        queries = queries / (e ** (1 / 4))
        keys = keys / (e ** (1 / 4))

        dot = torch.bmm(queries, keys.transpose(1, 2))
        if self.mask:
            hide_future(dot)

        dot = F.softmax(dot, dim=2)
        out = torch.bmm(dot, values).view(b, h, t, s)

        out = out.transpose(1, 2).contiguous().view(b, t, s * h)
        return self.unifyheads(out)
