import torch
import torch.nn as nn


def lengths_to_mask(lengths, max_len):
    "True for valid frames"
    return torch.arange(max_len, device=lengths.device).unsqueeze(0) < lengths.unsqueeze(1)


class SelfAttentionBlock(nn.Module):
    """input (T, B, C) frames with lengths (B,), output (T, B, C)"""

    def __init__(self, channels, nhead):
        super().__init__()
        self.nhead = nhead
        self.norm = nn.LayerNorm(channels)
        self.linear_q = nn.Linear(channels, channels)
        self.linear_k = nn.Linear(channels, channels)
        self.linear_v = nn.Linear(channels, channels)
        self.linear_out = nn.Linear(channels, channels)

    def attention(self, q, k, v, mask=None):
        # q, k, v: (B, h, T, d)
        scores = torch.matmul(q, k.transpose(-2, -1)) * q.size(-1) ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return torch.matmul(torch.softmax(scores, dim=-1), v)

    def forward(self, x, lengths):
        T, B, C = x.shape
        mask = lengths_to_mask(lengths, T)[:, None, None, :]
        y = self.norm(x)

        def heads(t):
            return t.view(T, B, self.nhead, C // self.nhead).permute(1, 2, 0, 3)

        y = self.attention(heads(self.linear_q(y)), heads(self.linear_k(y)), heads(self.linear_v(y)))
        y = y.permute(2, 0, 1, 3).reshape(T, B, C)
        return x + self.linear_out(y)


if __name__ == "__main__":
    block = SelfAttentionBlock(32, 4)
    print(block(torch.randn(9, 2, 32), torch.tensor([9, 5])).shape)
