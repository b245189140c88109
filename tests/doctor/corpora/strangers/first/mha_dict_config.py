import torch
import torch.nn as nn
from torch.nn.functional import softmax


class MHA(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.H = cfg["heads"]
        self.D = cfg["dim"]
        self.dk = self.D // self.H
        self.Wq = nn.Linear(self.D, self.D)
        self.Wk = nn.Linear(self.D, self.D)
        self.Wv = nn.Linear(self.D, self.D)
        self.Wo = nn.Linear(self.D, self.D)

    def forward(self, Q, K, V, mask=None):
        B, N, M = Q.shape[0], Q.shape[1], K.shape[1]
        Q = self.Wq(Q).reshape(B, N, self.H, self.dk).permute(0, 2, 1, 3)
        K = self.Wk(K).reshape(B, M, self.H, self.dk).permute(0, 2, 1, 3)
        V = self.Wv(V).reshape(B, M, self.H, self.dk).permute(0, 2, 1, 3)

        scores = torch.matmul(Q, K.permute(0, 1, 3, 2)) / self.dk ** 0.5
        if mask is not None:
            # mask (B, 1, N, M) or (B, 1, 1, M): 0 = ignore
            masked_scores = scores.masked_fill(mask == 0, float("-1e9"))
        A = softmax(scores, dim=-1)
        out = torch.matmul(A, V).permute(0, 2, 1, 3).reshape(B, N, self.D)
        return self.Wo(out)


config = {"heads": 4, "dim": 32}
mha = MHA(config)
x = torch.randn(2, 6, 32)
pad = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])[:, None, None, :]
print(mha(x, x, x, mask=pad).shape)
