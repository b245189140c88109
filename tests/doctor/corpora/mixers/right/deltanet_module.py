import torch, torch.nn as nn, torch.nn.functional as F

class DeltaNetLayer(nn.Module):
    def __init__(self, d_model: int, num_heads: int = 4):
        super().__init__()
        self.h, self.d = num_heads, d_model // num_heads
        self.wq = nn.Linear(d_model, d_model, bias=False)
        self.wk = nn.Linear(d_model, d_model, bias=False)
        self.wv = nn.Linear(d_model, d_model, bias=False)
        self.wb = nn.Linear(d_model, num_heads)
        self.wo = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        shape = (B, T, self.h, self.d)
        q = self.wq(x).view(shape).transpose(1, 2)
        k = F.normalize(self.wk(x).view(shape).transpose(1, 2), dim=-1)
        v = self.wv(x).view(shape).transpose(1, 2)
        beta = torch.sigmoid(self.wb(x)).transpose(1, 2)
        S = x.new_zeros(B, self.h, self.d, self.d)
        out = []
        for t in range(T):
            pred = torch.matmul(k[:, :, t].unsqueeze(-2), S).squeeze(-2)
            S = S + k[:, :, t].unsqueeze(-1) * (beta[:, :, t, None] * (v[:, :, t] - pred)).unsqueeze(-2)
            out.append(torch.matmul(q[:, :, t].unsqueeze(-2), S).squeeze(-2))
        y = torch.stack(out, dim=2).transpose(1, 2).reshape(B, T, -1)
        return self.wo(y)
