"""Residue encoder: embedding + sinusoidal position + attention."""
import torch
from torch import nn


def sinusoid(n, d):
    pos = torch.arange(n).float()[:, None]
    freq = 10000 ** (-torch.arange(0, d, 2).float() / d)
    return torch.cat([torch.sin(pos * freq), torch.cos(pos * freq)], dim=-1)  # (n, d)


class ProteinEncoder(nn.Module):
    def __init__(self, n_tokens=25, d=36, heads=6, max_len=512):
        super().__init__()
        self.emb = nn.Embedding(n_tokens, d)
        self.register_buffer("pos", sinusoid(max_len, d))
        self.heads = heads
        self.to_qkv = nn.Linear(d, 3 * d)
        self.to_out = nn.Linear(d, d)
        self.norm = nn.LayerNorm(d)

    def forward(self, residues):
        x = self.emb(residues)                       # batch, length, d
        x = x + self.pos[:len(x)].unsqueeze(1)
        b, l, d = x.shape
        q, k, v = self.to_qkv(self.norm(x)).view(b, l, 3, self.heads, -1).unbind(2)
        a = torch.einsum("bihd,bjhd->bhij", q, k) / q.size(-1) ** 0.5
        o = torch.einsum("bhij,bjhd->bihd", a.softmax(-1), v).reshape(b, l, d)
        return x + self.to_out(o)


if __name__ == "__main__":
    print(ProteinEncoder()(torch.randint(0, 25, (2, 18))).shape)
