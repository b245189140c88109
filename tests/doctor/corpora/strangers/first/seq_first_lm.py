import torch
import torch.nn as nn


class LMAttention(nn.Module):
    """Left-to-right attention for language modelling, input (T, B, D)."""

    def __init__(self, D, H):
        super().__init__()
        self.H, self.hd = H, D // H
        self.qkv = nn.Linear(D, 3 * D)
        self.o = nn.Linear(D, D)

    def forward(self, x):
        T, B, D = x.shape
        q, k, v = self.qkv(x).view(T, B, 3, self.H, self.hd).unbind(2)
        w = torch.einsum("ibhd,jbhd->bhij", q, k) * self.hd ** -0.5
        i = torch.arange(T, device=x.device)
        allowed = i[:, None] > i[None, :]
        w = torch.where(allowed, w, torch.full_like(w, torch.finfo(w.dtype).min))
        y = torch.einsum("bhij,jbhd->ibhd", w.softmax(-1), v)
        return self.o(y.reshape(T, B, D))


if __name__ == "__main__":
    print(LMAttention(32, 4)(torch.randn(7, 2, 32)).shape)
