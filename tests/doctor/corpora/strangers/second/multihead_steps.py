import torch
import torch.nn as nn
import torch.nn.functional as F


class StepMultiHead(nn.Module):
    """Multi-head attention, head after head."""

    def __init__(self, dim=48, heads=6):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q_map, self.k_map = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v_map, self.o_map = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, keep=None):
        """keep: (B, N) bool, False for padding"""
        q, k, v = self.q_map(x), self.k_map(x), self.v_map(x)
        result = []
        for h in range(self.heads):
            sl = slice(h * self.hd, (h + 1) * self.hd)
            s = q[..., sl] @ k[..., sl].transpose(1, 2) / self.hd ** 0.5
            if keep is not None:
                s = s.masked_fill(~keep[:, None, :], float("-inf"))
            result.append(F.softmax(s, dim=-1) @ v[..., sl])
        return self.o_map(torch.cat(result, dim=-1))


if __name__ == "__main__":
    print(StepMultiHead()(torch.randn(2, 7, 48)).shape)
