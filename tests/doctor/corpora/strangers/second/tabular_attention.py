import torch
import torch.nn as nn
import torch.nn.functional as F


class FeatureAttention(nn.Module):
    """Attention between the columns of a table; every column is one token."""

    def __init__(self, token_dim=32, heads=4):
        super().__init__()
        self.token_dim, self.heads = token_dim, heads
        self.embed = nn.Linear(1, token_dim)
        self.out = nn.Linear(token_dim, token_dim)

    def forward(self, columns):
        x = self.embed(columns.unsqueeze(-1))              # (B, columns, token_dim)
        B, N, D = x.shape
        Wq, Wk, Wv = (nn.Linear(D, D, bias=False).to(x) for _ in range(3))
        q, k, v = (W(x).view(B, N, self.heads, D // self.heads).transpose(1, 2) for W in (Wq, Wk, Wv))
        z = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(z.transpose(1, 2).reshape(B, N, D))


if __name__ == "__main__":
    print(FeatureAttention()(torch.randn(4, 9)).shape)
