import torch
import torch.nn as nn


class Attention(nn.Module):
    """Self-attention for sequence labelling, mask (B, T) with 1 for tokens."""

    def __init__(self, n_hidden, n_heads, dropout=0.25):
        super().__init__()
        self.n_heads, self.hd = n_heads, n_hidden // n_heads
        self.lin = nn.Linear(n_hidden, n_hidden * 3)
        self.fc = nn.Linear(n_hidden, n_hidden)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        B, T, H = x.shape
        q, k, v = self.lin(x).view(B, T, 3, self.n_heads, self.hd).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / self.hd ** 0.5
        if mask is not None:
            score = score.masked_fill(mask[:, None, None, :] == 0, -1e9)
        prob = self.drop(score).softmax(dim=-1)
        return self.fc((prob @ v).transpose(1, 2).reshape(B, T, H))


if __name__ == "__main__":
    model = Attention(32, 4)
    model.train()
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    print(model(torch.randn(2, 4, 32), mask).shape)
