import torch
import torch.nn as nn


def generate_square_subsequent_mask(sz):
    """Upper triangular matrix with -1e9 on the future positions, 0 elsewhere."""
    return torch.triu(torch.full((sz, sz), -1e9), diagonal=0)


class MaskedSelfAttention(nn.Module):
    def __init__(self, d_model, nhead):
        super().__init__()
        self.nhead = nhead
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q, k, v = (y.view(b, t, self.nhead, d // self.nhead).transpose(1, 2) for y in (q, k, v))
        attn = q @ k.transpose(-1, -2) / (d // self.nhead) ** 0.5
        attn = attn + generate_square_subsequent_mask(t).to(x)
        out = attn.softmax(dim=-1) @ v
        return self.out_proj(out.transpose(1, 2).reshape(b, t, d))


if __name__ == "__main__":
    print(MaskedSelfAttention(32, 4)(torch.randn(2, 6, 32)).shape)
