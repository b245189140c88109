import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.qkv = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        B, N, _ = x.size()
        q, k, v = self.qkv(x).view(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        attn = F.softmax(q @ k.transpose(-2, -1) / self.head_dim**0.5, dim=-1)
        out = (attn @ v).transpose(1, 2).reshape(B, N, self.hidden_dim)
        out_proj = nn.Linear(self.hidden_dim, self.hidden_dim)
        return out_proj(out)


if __name__ == "__main__":
    print(MultiHeadAttention(64, 8)(torch.randn(2, 3, 64)).shape)
