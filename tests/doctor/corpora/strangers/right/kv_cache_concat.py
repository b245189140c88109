import torch
import torch.nn as nn


class CachedAttention(nn.Module):
    def __init__(self, dim=32, n_head=4):
        super().__init__()
        self.n_head = n_head
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, kv_cache=None):
        b, n, d = x.shape
        h = self.n_head
        q = self.q(x).view(b, n, h, d // h).transpose(1, 2)
        k = self.k(x).view(b, n, h, d // h).transpose(1, 2)
        v = self.v(x).view(b, n, h, d // h).transpose(1, 2)
        if kv_cache is not None:
            pk, pv = kv_cache
            k = torch.cat([pk, k], dim=2)
            v = torch.cat([pv, v], dim=2)
        total = k.size(2)
        past = total - n
        s = (q @ k.transpose(2, 3)) * (d // h) ** -0.5
        qpos = torch.arange(past, total, device=x.device).unsqueeze(1)
        kpos = torch.arange(total, device=x.device).unsqueeze(0)
        s = s.masked_fill(kpos > qpos, float("-inf"))
        y = (torch.softmax(s, -1) @ v).transpose(1, 2).contiguous().view(b, n, d)
        return self.o(y), (k, v)


if __name__ == "__main__":
    attn = CachedAttention()
    x = torch.randn(1, 6, 32)
    full, _ = attn(x)
    cache, outs = None, []
    for t in range(6):
        y, cache = attn(x[:, t:t + 1], cache)
        outs.append(y)
    print("max diff:", (torch.cat(outs, 1) - full).abs().max().item())
