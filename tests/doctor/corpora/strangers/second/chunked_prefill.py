import torch
from torch import nn
import torch.nn.functional as F


class ChunkAttention(nn.Module):
    """Causal attention which can be fed in chunks. state = None or {'k':…, 'v':…}"""

    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.in_proj = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, state=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.in_proj(x).chunk(3, -1))
        first = state is None
        if not first:
            k = torch.cat([state["k"], k], dim=-2)
            v = torch.cat([state["v"], v], dim=-2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=first)
        return self.out_proj(y.transpose(1, 2).flatten(2)), {"k": k, "v": v}


if __name__ == "__main__":
    att, state = ChunkAttention(64, 4).eval(), None
    for chunk in torch.randn(2, 12, 64).split(4, dim=1):   # prefill in chunks of four
        y, state = att(chunk, state)
    print(y.shape, state["k"].shape)
