import torch
import torch.nn as nn


class AsymmetricAttention(nn.Module):
    def __init__(self, n_in=20, n_out=28, heads=3, d_k=7, d_v=11):
        super().__init__()
        self.heads, self.d_k, self.d_v = heads, d_k, d_v
        self.W_Q = nn.Linear(n_in, heads * d_k)
        self.W_K = nn.Linear(n_in, heads * d_k)
        self.W_V = nn.Linear(n_in, heads * d_v)
        self.W_O = nn.Linear(heads * d_v, n_out)

    def forward(self, x, mask=None):
        B, N, _ = x.shape
        Q = self.W_Q(x).view(B, N, self.heads, self.d_k).transpose(1, 2)
        K = self.W_K(x).view(B, N, self.heads, self.d_k).transpose(1, 2)
        V = self.W_V(x).view(B, N, self.heads, self.d_v).transpose(1, 2)
        S = Q @ K.transpose(-2, -1) / self.d_k ** 0.5
        if mask is not None:
            S = S.masked_fill(mask == False, -1e9)  # noqa: E712
        Z = torch.softmax(S, dim=3) @ V
        return self.W_O(Z.transpose(1, 2).reshape(B, N, self.heads * self.d_v))
