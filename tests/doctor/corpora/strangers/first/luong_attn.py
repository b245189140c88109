import torch
import torch.nn as nn
import torch.nn.functional as F


class LuongAttention(nn.Module):
    """Scaled 'general' attention over encoder outputs."""

    def __init__(self, hidden):
        super().__init__()
        self.hidden = hidden
        self.W = nn.Linear(hidden, hidden, bias=False)
        self.combine = nn.Linear(2 * hidden, hidden)

    def forward(self, dec, enc):
        """
        dec: (B, Tdec, H)
        enc: (B, Tenc, H)
        """
        score = torch.bmm(self.W(dec), enc.transpose(1, 2)) / self.hidden ** 0.5
        alpha = F.softmax(score, dim=0)
        ctx = torch.bmm(alpha, enc)
        return torch.tanh(self.combine(torch.cat([ctx, dec], dim=-1))), alpha


if __name__ == "__main__":
    attn = LuongAttention(24)
    h, a = attn(torch.randn(3, 4, 24), torch.randn(3, 9, 24))
    print(h.shape, a.shape)
