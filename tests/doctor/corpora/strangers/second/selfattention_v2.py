import torch
import torch.nn as nn


class SelfAttentionV2(nn.Module):
    """Multi-head self-attention with explicit weight matrices."""

    def __init__(self, d_in, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_in // num_heads
        std = d_in ** -0.5
        self.W_query = torch.randn(d_in, d_in) * std
        self.W_key = torch.randn(d_in, d_in) * std
        self.W_value = torch.randn(d_in, d_in) * std
        self.out = nn.Linear(d_in, d_in)

    def forward(self, x):
        b, n, d = x.shape
        heads = lambda t: t.view(b, n, self.num_heads, self.d_head).transpose(1, 2)
        queries, keys, values = heads(x @ self.W_query), heads(x @ self.W_key), heads(x @ self.W_value)
        attn_scores = queries @ keys.transpose(2, 3)
        attn_weights = torch.softmax(attn_scores / self.d_head ** 0.5, dim=-1)
        return self.out((attn_weights @ values).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(123)
inputs = torch.rand(1, 6, 24)   # 6 tokens
print(SelfAttentionV2(24, 3)(inputs).shape)
