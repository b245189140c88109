import torch
import torch.nn as nn


class GQA(nn.Module):
    """Grouped-query attention: query heads 0 .. g-1 share key/value head 0, the next g share head 1, and so on."""

    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.d_head = d_model // num_heads
        self.scale = self.d_head**-0.5
        self.wq = nn.Linear(d_model, num_heads * self.d_head, bias=False)
        self.wk = nn.Linear(d_model, num_kv_heads * self.d_head, bias=False)
        self.wv = nn.Linear(d_model, num_kv_heads * self.d_head, bias=False)
        self.wo = nn.Linear(num_heads * self.d_head, d_model, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        k = self.wk(x).view(B, T, self.num_kv_heads, self.d_head).transpose(1, 2)
        v = self.wv(x).view(B, T, self.num_kv_heads, self.d_head).transpose(1, 2)
        n_rep = self.num_heads // self.num_kv_heads
        k = k.repeat(1, n_rep, 1, 1)
        v = v.repeat(1, n_rep, 1, 1)
        weights = (q @ k.transpose(-2, -1) / self.scale).softmax(dim=-1)
        return self.wo((weights @ v).transpose(1, 2).reshape(B, T, -1))


if __name__ == "__main__":
    print(GQA(64, 8, 2)(torch.randn(2, 5, 64)).shape)
