import torch
import torch.nn as nn
import torch.nn.functional as F


def rope(x, positions, base=10000.0):
    # x: (B, H, T, D)
    half = x.size(-1) // 2
    freq = base ** (-torch.arange(half, dtype=x.dtype, device=x.device) / half)
    ang = positions[:, None].to(x.dtype) * freq
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat([x1 * ang.cos() - x2 * ang.sin(), x2 * ang.cos() + x1 * ang.sin()], dim=-1)


class CausalAttention(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = hidden_size // num_heads
        self.q_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.k_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.v_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, hidden_states, past_key_value=None, use_cache=False):
        B, T, C = hidden_states.shape
        q = self.q_proj(hidden_states).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(hidden_states).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(hidden_states).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)

        positions = torch.arange(T, device=q.device)
        q, k = rope(q, positions), rope(k, positions)

        past = 0
        if past_key_value is not None:
            past = past_key_value[0].size(2)
            k = torch.cat([past_key_value[0], k], dim=2)
            v = torch.cat([past_key_value[1], v], dim=2)
        present = (k, v) if use_cache else None

        keep = torch.ones(T, past + T, dtype=torch.bool, device=q.device).tril(diagonal=past)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.o_proj(out.transpose(1, 2).reshape(B, T, C)), present


if __name__ == "__main__":
    layer = CausalAttention(32, 4)
    x = torch.randn(1, 5, 32)
    _, kv = layer(x[:, :4], use_cache=True)
    print(layer(x[:, 4:], kv, use_cache=True)[0].shape)
