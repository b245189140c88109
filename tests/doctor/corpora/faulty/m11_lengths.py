import torch
from torch import nn


def sequence_mask(lengths, maxlen):
    return torch.arange(maxlen, device=lengths.device).unsqueeze(0) >= lengths.unsqueeze(1)


class SelfAttention(nn.Module):
    """Single head self attention on top of a BiLSTM, for relation extraction."""

    def __init__(self, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)

    def forward(self, inputs, lengths):
        # inputs: (batch, time, hidden), lengths: (batch,)
        scores = self.query(inputs) @ self.key(inputs).transpose(1, 2) / self.hidden_size**0.5
        pad = sequence_mask(lengths, inputs.size(1))
        scores = scores.masked_fill(pad.unsqueeze(-1), -1e9)
        weights = torch.softmax(scores, dim=-1)
        return weights @ self.value(inputs), weights


if __name__ == "__main__":
    layer = SelfAttention(12)
    print(layer(torch.randn(3, 6, 12), torch.tensor([6, 2, 4]))[0].shape)
