import torch
from torch import nn

class MultiHeadRetention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.h = num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim); self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim); self.o_proj = nn.Linear(embed_dim, embed_dim)
        self.gammas = [1 - 2 ** (-3 - i) for i in range(num_heads)]
    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (f(x).view(B, T, self.h, C // self.h).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        g = torch.tensor(self.gammas, dtype=x.dtype).view(self.h, 1, 1)
        D = torch.tril(g ** torch.arange(T, dtype=x.dtype)[:, None].expand(T, T))
        y = (q @ k.mT) * D @ v
        return self.o_proj(y.transpose(1, 2).reshape(B, T, C))
