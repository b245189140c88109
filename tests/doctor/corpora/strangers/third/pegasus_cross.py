import math

import torch
from torch import nn
from torch.nn.functional import dropout, softmax


class CrossAttention(nn.Module):
    """The summary looks at the article."""

    def __init__(self, hidden, heads, drop=0.1):
        super().__init__()
        self.heads, self.per_head, self.drop = heads, hidden // heads, drop
        self.from_summary = nn.Linear(hidden, hidden)
        self.from_article = nn.Linear(hidden, 2 * hidden)
        self.merge = nn.Linear(hidden, hidden)

    def forward(self, summary, article, article_keep=None):
        b, n, c = summary.shape
        m = article.shape[1]
        q = self.from_summary(summary).view(b, n, self.heads, self.per_head).permute(0, 2, 1, 3)
        k, v = self.from_article(article).view(b, m, 2, self.heads, self.per_head).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(2, 3) / math.sqrt(self.per_head)
        if article_keep is not None:
            s = s.masked_fill(~article_keep.bool()[:, None, None], float("-inf"))
        w = dropout(softmax(s, dim=3), self.drop)
        return self.merge((w @ v).permute(0, 2, 1, 3).reshape(b, n, c))
