import torch
import torch.nn as nn

MASK_VALUE = -1e4  # fits into float16


class CausalAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.attn = nn.Linear(hidden, 3 * hidden)
        self.proj = nn.Linear(hidden, hidden)

    def forward(self, x):
        B, T, H = x.shape
        q, k, v = self.attn(x).view(B, T, self.heads, 3 * (H // self.heads)).transpose(1, 2).chunk(3, dim=-1)
        s = q @ k.transpose(-1, -2) / (H // self.heads) ** 0.5
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        s = s.masked_fill(future, MASK_VALUE)
        return self.proj((s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, H))


if __name__ == "__main__":
    print(CausalAttention(32, 4)(torch.randn(2, 8, 32)).shape)
