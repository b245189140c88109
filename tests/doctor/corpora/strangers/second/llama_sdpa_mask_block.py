import torch
from torch import nn
import torch.nn.functional as F


class DecoderBlock(nn.Module):
    def __init__(self, hidden=64, heads=8):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.q_proj, self.k_proj = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.v_proj, self.o_proj = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.SiLU(), nn.Linear(4 * hidden, hidden))

    def make_mask(self, n, x):
        m = torch.full((n, n), float("-inf"), dtype=x.dtype, device=x.device)
        return torch.triu(m, diagonal=1)

    def forward(self, x):
        b, n, c = x.shape
        mask = self.make_mask(n, x)
        y = self.ln1(x)
        q, k, v = (p(y).view(b, n, self.heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.o_proj(a.transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.ln2(x))


if __name__ == "__main__":
    print(DecoderBlock()(torch.randn(2, 9, 64)).shape)
