import torch
from torch import nn


class ScaledDotProductAttention(nn.Module):
    """Attention of the queries to the keys; the values are mixed accordingly."""

    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, q, k, v, mask=None):
        # q, k, v: [batch_size, head, length, d_tensor]
        batch_size, head, length, d_tensor = k.size()
        score = (q @ k.transpose(2, 3)) / d_tensor**0.5
        if mask is not None:
            score = score.mask_fill(mask == 0, -10000000.0)
        score = self.softmax(score)
        return score @ v, score


if __name__ == "__main__":
    q = torch.randn(2, 4, 5, 8)
    print(ScaledDotProductAttention()(q, q, q)[0].shape)
