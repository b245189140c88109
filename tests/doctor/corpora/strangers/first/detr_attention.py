import torch
from torch import nn


class DetrAttention(nn.Module):
    """Attention with position embeddings added to queries and keys (not to values)."""

    def __init__(self, embed_dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def _shape(self, t):
        return t.view(t.shape[0], -1, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, hidden, pos=None):
        qk = hidden if pos is None else hidden + pos
        q, k, v = self._shape(self.q_proj(qk)), self._shape(self.k_proj(qk)), self._shape(self.v_proj(hidden))
        attn = torch.matmul(q, k.transpose(-1, -2)).softmax(dim=-1).div(self.head_dim ** 0.5)
        out = torch.matmul(attn, v)
        out = out.transpose(1, 2).reshape(hidden.shape)
        return self.out_proj(out)


if __name__ == "__main__":
    queries = torch.randn(2, 10, 32)
    print(DetrAttention(32, 4)(queries, pos=torch.randn(1, 10, 32)).shape)
