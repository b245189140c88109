import torch
from torch.func import vmap


def head(q, k, v):
    # q (n, d), k (m, d), v (m, e): one head, one sample
    return torch.softmax(q @ k.T / q.shape[-1] ** 0.5, dim=-1) @ v


batched = vmap(vmap(head))          # (batch, heads, n, d)


def causal_head(q, k, v):
    n = q.shape[0]
    s = q @ k.T / q.shape[-1] ** 0.5
    s = torch.where(torch.ones(n, n, dtype=torch.bool).tril(), s, -torch.inf)
    return torch.softmax(s, dim=-1) @ v


batched_causal = vmap(vmap(causal_head))

if __name__ == "__main__":
    x = torch.randn(2, 3, 5, 8)
    print(batched(x, x, x).shape, batched_causal(x, x, x).shape)
