import torch
import torch.nn as nn
import torch.nn.functional as F


class SDPABlock(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5   # what SDPA uses internally; shown in extra_repr
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def extra_repr(self):
        return f"heads={self.num_heads}, scale={self.scale:.4f}"

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.to_qkv(self.norm(x)).reshape(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v)
        return x + self.to_out(out.transpose(1, 2).reshape(b, n, d))


print(SDPABlock(32, 4))
