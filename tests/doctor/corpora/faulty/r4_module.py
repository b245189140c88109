import torch
import torch.nn as nn
import torch.nn.functional as F


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, max_position=2048, base=10000):
        super().__init__()
        theta = base ** (-torch.arange(0, dim, 2) / dim)
        angles = torch.arange(max_position)[:, None] * theta[None, :]
        self.register_buffer("cos", torch.cat([angles, angles], dim=-1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([angles, angles], dim=-1).sin(), persistent=False)

    def forward(self, x):
        n = x.size(-2)
        rotated = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
        return x * self.cos[:n] + rotated * self.sin[:n]


class RoPEAttention(nn.Module):
    """Causal self attention with rotary position embeddings."""

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = hidden_size // num_heads
        self.q_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.k_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.v_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.rope = RotaryEmbedding(self.head_dim)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        q, k = self.rope(q), self.rope(k)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(b, n, -1))


if __name__ == "__main__":
    print(RoPEAttention(64, 4)(torch.randn(2, 9, 64)).shape)
