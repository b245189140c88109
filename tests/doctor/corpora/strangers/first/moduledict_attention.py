import torch
import torch.nn as nn


class DotAttention(nn.Module):
    """mask (optional): (B, Tk), 1 = keep"""

    def __init__(self, dim: int, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.dim_head = dim // heads
        self.proj_in = nn.ModuleDict({n: nn.Linear(dim, dim) for n in ("query", "key", "value")})
        self.proj_out = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        x = {"query": query, "key": key, "value": value}
        x = {n: self.proj_in[n](t).unflatten(-1, (self.heads, self.dim_head)).transpose(1, 2) for n, t in x.items()}
        score = x["query"] @ x["key"].transpose(-1, -2) / self.dim_head ** 0.5
        if mask is not None:
            score = score.mask_fill(mask[:, None, None, :] == 0, -1e9)
        y = score.softmax(dim=-1) @ x["value"]
        return self.proj_out(y.transpose(1, 2).flatten(2))


attn = DotAttention(32)
z = torch.randn(2, 5, 32)
print(attn(z, z, z).shape)
