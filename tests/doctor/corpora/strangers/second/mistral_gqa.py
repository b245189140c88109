import torch
from torch import nn
import torch.nn.functional as F


class SlidingGQA(nn.Module):
    def __init__(self, dim=64, n_heads=8, n_kv_heads=2, window=4, max_len=64):
        super().__init__()
        self.nh, self.nkv, self.hd = n_heads, n_kv_heads, dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.hd, bias=False)
        self.wkv = nn.Linear(dim, 2 * n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(n_heads * self.hd, dim, bias=False)
        i = torch.arange(max_len)
        d = i[:, None] - i[None, :]
        self.register_buffer("ok", (d >= 0) & (d < window), persistent=False)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.wq(x).view(b, n, self.nh, self.hd).transpose(1, 2)
        k, v = self.wkv(x).view(b, n, 2, self.nkv, self.hd).permute(2, 0, 3, 1, 4)
        # every kv head serves nh // nkv neighbouring query heads
        k = torch.cat([k] * (self.nh // self.nkv), dim=1)
        v = torch.cat([v] * (self.nh // self.nkv), dim=1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.ok[:n, :n])
        return self.wo(y.transpose(1, 2).reshape(b, n, -1))


if __name__ == "__main__":
    print(SlidingGQA()(torch.randn(2, 10, 64)).shape)
