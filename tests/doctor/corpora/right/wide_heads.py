import torch
import torch.nn as nn


class SingleHead(nn.Module):
    def __init__(self, input_size, output_size):
        super().__init__()
        self.q = nn.Linear(input_size, output_size)
        self.k = nn.Linear(input_size, output_size)
        self.v = nn.Linear(input_size, output_size)
        self.scale = output_size**0.5

    def forward(self, x, mask=None):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / self.scale
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return torch.softmax(scores, dim=-1) @ self.v(x)


class MultiHeadAttention(nn.Module):
    """every head works at the full width, the output layer brings it back"""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.heads = nn.ModuleList()
        for _ in range(n_heads):
            self.heads.append(SingleHead(d_model, d_model))
        self.linear = nn.Linear(n_heads * d_model, d_model, bias=False)

    def forward(self, x, mask=None):
        outs = []
        for head in self.heads:
            outs.append(head(x, mask))
        return self.linear(torch.concat(outs, dim=-1))
