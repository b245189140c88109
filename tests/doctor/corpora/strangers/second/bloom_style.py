import torch
import torch.nn as nn
import torch.nn.functional as F


class BloomAttention(nn.Module):
    """Causal attention with linear biases (Press et al.)."""

    def __init__(self, hidden_size, n_head, max_positions=64):
        super().__init__()
        self.n_head = n_head
        self.head_dim = hidden_size // n_head
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        head = torch.arange(2, n_head + 2, dtype=torch.float32)
        slopes = torch.pow(2.0, -8.0 * head / n_head)
        i = torch.arange(max_positions)
        rel = (i.view(1, -1) - i.view(-1, 1)).float()
        causal = torch.full((max_positions, max_positions), float("-inf")).triu(1)
        self.register_buffer("alibi", slopes.view(1, -1, 1, 1) * rel + causal)

    def forward(self, hidden_states):
        b, n, c = hidden_states.shape
        fused = self.query_key_value(hidden_states).view(b, n, self.n_head, 3, self.head_dim)
        q, k, v = (fused[..., j, :].transpose(1, 2) for j in range(3))
        ctx = F.scaled_dot_product_attention(q, k, v, attn_mask=self.alibi[:, :, :n, :n])
        return self.dense(ctx.transpose(1, 2).reshape(b, n, c))


attn = BloomAttention(32, 4)
print(attn(torch.randn(2, 6, 32)).shape)
