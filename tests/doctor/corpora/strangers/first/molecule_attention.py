import torch
import torch.nn as nn


class MoleculeAttention(nn.Module):
    """Atoms attend to atoms. x (B, A, D), dist (B, A, A) in angstrom, atoms (B, A) True = atom, False = filler."""

    def __init__(self, D, H):
        super().__init__()
        self.H, self.d = H, D // H
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.slope = nn.Parameter(torch.ones(H))

    def forward(self, x, dist, atoms):
        B, A, D = x.shape
        q = self.q(x).view(B, A, self.H, self.d).transpose(1, 2)
        k = self.k(x).view(B, A, self.H, self.d).transpose(1, 2)
        v = self.v(x).view(B, A, self.H, self.d).transpose(1, 2)
        s = q @ k.transpose(-1, -2) / self.d ** 0.5
        s = s - self.slope.abs().view(1, -1, 1, 1) * dist[:, None]
        w = s.softmax(dim=-1)
        w = w * atoms[:, None, None, :]
        return x + self.o((w @ v).transpose(1, 2).reshape(B, A, D))


if __name__ == "__main__":
    pos = torch.randn(2, 6, 3)
    atoms = torch.arange(6)[None] < torch.tensor([6, 4])[:, None]
    print(MoleculeAttention(32, 4)(torch.randn(2, 6, 32), torch.cdist(pos, pos), atoms).shape)
