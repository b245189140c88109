import torch
import torch.nn as nn
import torch.nn.functional as F


class SimpleSelfAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads=4):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.q_linear = nn.Linear(hidden_dim, hidden_dim)
        self.k_linear = nn.Linear(hidden_dim, hidden_dim)
        self.v_linear = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        b, n, d = x.shape
        q = self.q_linear(x).view(b, n, self.num_heads, -1).transpose(1, 2)
        k = self.k_linear(x).view(b, n, self.num_heads, -1).transpose(1, 2)
        v = self.v_linear(x).view(b, n, self.num_heads, -1).transpose(1, 2)
        w = F.softmax(q @ k.transpose(-1, -2) / q.size(-1) ** 0.5, dim=-1)
        concat = (w @ v).transpose(1, 2).reshape(b, n, d)
        output_layer = nn.Linear(d, self.hidden_dim)
        return output_layer(concat)


if __name__ == "__main__":
    print(SimpleSelfAttention(32)(torch.randn(2, 6, 32)).shape)
