import torch, torch.nn as nn, torch.nn.functional as F

class DeltaNet(nn.Module):
    """The delta rule."""
    def __init__(self, d_model, num_heads=4):
        super().__init__()
        self.h, self.d = num_heads, d_model // num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.wb = nn.Linear(d_model, num_heads)
    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = (w(x).view(B, T, self.h, self.d).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        k = F.normalize(k, dim=-1)
        beta = self.wb(x).sigmoid().transpose(1, 2)
        S = x.new_zeros(B, self.h, self.d, self.d)
        out = []
        for t in range(T):
            S = S + beta[:, :, t, None, None] * k[:, :, t, :, None] * v[:, :, t, None, :]
            out.append((q[:, :, t, None] @ S).squeeze(-2))
        return self.wo(torch.stack(out, 1).reshape(B, T, -1))
