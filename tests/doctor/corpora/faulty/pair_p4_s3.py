import torch
import torch.nn as nn


class MHSA(nn.Module):
    def __init__(self, emb_dim=128, num_heads=8):
        super().__init__()
        self.emb_dim = emb_dim
        self.num_heads = num_heads
        self.W_Q = nn.Linear(emb_dim, emb_dim, bias=False)
        self.W_K = nn.Linear(emb_dim, emb_dim, bias=False)
        self.W_V = nn.Linear(emb_dim, emb_dim, bias=False)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x):
        B, N, E = x.shape
        q = self.W_Q(x).reshape(B, N, self.num_heads, -1).transpose(1, 2)
        k = self.W_K(x).reshape(B, N, self.num_heads, -1).transpose(1, 2)
        v = self.W_V(x).reshape(B, N, self.num_heads, -1).transpose(1, 2)
        scores = q @ k.transpose(-1, -2) / (self.emb_dim**0.5)
        return (self.softmax(scores) @ v).transpose(1, 2).reshape(B, N, E)


if __name__ == "__main__":
    print(MHSA()(torch.rand(2, 9, 128)).shape)
