import torch
import torch.nn as nn


class MaskedDotAttention(nn.Module):
    """One decoder state attends to the LSTM outputs of the encoder.

    hidden (B, H), outputs (B, T, H), lengths (B,)
    """

    def __init__(self, hidden_size):
        super().__init__()
        self.scale = hidden_size ** -0.5
        self.key = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, hidden, outputs, lengths):
        scores = torch.bmm(self.key(outputs), hidden.unsqueeze(2)).squeeze(2) * self.scale  # (B, T)
        positions = torch.arange(outputs.size(1), device=outputs.device)
        inside = positions[None, :] < lengths[:, None]
        torch.where(inside, scores, torch.full_like(scores, float("-inf")))
        alpha = torch.softmax(scores, dim=1)
        return torch.bmm(alpha.unsqueeze(1), outputs).squeeze(1), alpha


if __name__ == "__main__":
    lstm = nn.LSTM(10, 16, batch_first=True)
    out, (h, _) = lstm(torch.randn(3, 7, 10))
    ctx, a = MaskedDotAttention(16)(h[-1], out, torch.tensor([7, 4, 2]))
    print(ctx.shape, a.shape)
