import torch
import torch.nn as nn
import torch.nn.functional as F


class GPT2Attention(nn.Module):
    """GPT-2 attention with a key/value cache for generation."""

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.split_size = n_embd
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def split_heads(self, x):
        return x.view(x.size(0), x.size(1), self.n_head, -1).transpose(1, 2)

    def forward(self, x, layer_past=None):
        q, k, v = self.c_attn(x).split(self.split_size, dim=2)
        q, k, v = self.split_heads(q), self.split_heads(k), self.split_heads(v)
        if layer_past is not None:
            past_k, past_v = layer_past
            k = torch.cat((past_k, k), dim=-2)
            v = torch.cat((past_v, v), dim=-2)
        present = (k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(x.size(0), x.size(1), self.split_size)
        return self.c_proj(y), present


if __name__ == "__main__":
    attn = GPT2Attention(48, 4)
    x = torch.randn(1, 7, 48)
    y, past = attn(x[:, :6])
    print(attn(x[:, 6:], past)[0].shape)
