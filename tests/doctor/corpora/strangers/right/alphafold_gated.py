import torch
from torch import nn


class GatedAttention(nn.Module):
    def __init__(self, c_q, c_m, c_hidden=8, no_heads=4):
        super().__init__()
        self.h, self.c = no_heads, c_hidden
        self.linear_q = nn.Linear(c_q, no_heads * c_hidden, bias=False)
        self.linear_k = nn.Linear(c_m, no_heads * c_hidden, bias=False)
        self.linear_v = nn.Linear(c_m, no_heads * c_hidden, bias=False)
        self.linear_g = nn.Linear(c_q, no_heads * c_hidden)
        self.linear_o = nn.Linear(no_heads * c_hidden, c_q)

    def forward(self, q_x, kv_x, biases=()):
        """q_x (*, Q, C_q), kv_x (*, K, C_m), biases broadcast to (*, H, Q, K)"""
        q = self.linear_q(q_x).unflatten(-1, (self.h, self.c)).transpose(-2, -3)
        k = self.linear_k(kv_x).unflatten(-1, (self.h, self.c)).transpose(-2, -3)
        v = self.linear_v(kv_x).unflatten(-1, (self.h, self.c)).transpose(-2, -3)
        q = q / self.c ** 0.5
        a = torch.matmul(q, k.transpose(-1, -2))
        for b in biases:
            a = a + b
        o = torch.matmul(torch.softmax(a, -1), v).transpose(-2, -3)      # (*, Q, H, C)
        g = torch.sigmoid(self.linear_g(q_x)).unflatten(-1, (self.h, self.c))
        return self.linear_o((o * g).flatten(-2))


class TriangleAttentionStart(nn.Module):
    def __init__(self, c_in=16, heads=4):
        super().__init__()
        self.layer_norm = nn.LayerNorm(c_in)
        self.linear = nn.Linear(c_in, heads, bias=False)
        self.mha = GatedAttention(c_in, c_in, 8, heads)

    def forward(self, x, mask):                      # x (B, I, J, C), mask (B, I, J) 1 = real
        x = self.layer_norm(x)
        mask_bias = (1e9 * (mask - 1))[..., :, None, None, :]
        triangle_bias = self.linear(x).permute(0, 3, 1, 2).unsqueeze(-4)
        return self.mha(x, x, [mask_bias, triangle_bias])
