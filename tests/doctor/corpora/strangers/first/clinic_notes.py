import torch
import torch.nn as nn


class LabelAttention(nn.Module):
    """Each label reads the words of a clinical note. Notes may be empty (length 0)."""

    def __init__(self, n_labels, dim):
        super().__init__()
        self.labels = nn.Parameter(torch.randn(n_labels, dim))
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.scale = dim ** -0.5

    def forward(self, words, lengths):
        # words (B, T, dim), lengths (B,)
        k, v = self.key(words), self.value(words)
        scores = torch.einsum("ld,btd->blt", self.labels, k) * self.scale
        outside = torch.arange(words.size(1), device=words.device)[None, :] >= lengths[:, None]
        scores = scores.masked_fill(outside.unsqueeze(1), float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return torch.einsum("blt,btd->bld", weights, v)


if __name__ == "__main__":
    layer = LabelAttention(6, 16)
    print(layer(torch.randn(3, 9, 16), torch.tensor([9, 4, 0])).shape)
