import torch
import torch.nn as nn
import torch.nn.functional as F


class LocalSelfAttention(nn.Module):
    def __init__(self, n_embd: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.q = nn.Linear(n_embd, n_embd)
        self.k = nn.Linear(n_embd, n_embd)
        self.v = nn.Linear(n_embd, n_embd)
        self.o = nn.Linear(n_embd, n_embd)

    def forward(self, x, padding=None, window=None):
        """
        padding: (B, T) bool, True = real token
        window:  int, only look at tokens at distance < window
        """
        B, T, C = x.shape
        q, k, v = (f(x).view(B, T, self.n_head, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        mask = torch.ones(B, 1, T, T, dtype=torch.bool, device=x.device)
        if padding is not None:
            mask = padding[:, None, None, :].expand(B, 1, T, T)
        if window is not None:
            pos = torch.arange(T, device=x.device)
            mask = ((pos[:, None] - pos[None, :]).abs() < window).expand(B, 1, T, T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(1, 2).flatten(2))


if __name__ == "__main__":
    layer = LocalSelfAttention(32, 4)
    pad = torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]).bool()
    print(layer(torch.randn(2, 6, 32), pad, window=3).shape)
