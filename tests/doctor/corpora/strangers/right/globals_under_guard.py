import torch

D_MODEL, N_HEADS, D_FF = 24, 3, 48


def init(seed=0):
    g = torch.Generator().manual_seed(seed)
    w = lambda *s: (torch.randn(*s, generator=g) * s[0] ** -0.5).requires_grad_()
    return {"wq": w(D_MODEL, D_MODEL), "wk": w(D_MODEL, D_MODEL), "wv": w(D_MODEL, D_MODEL), "wo": w(D_MODEL, D_MODEL),
            "w1": w(D_MODEL, D_FF), "w2": w(D_FF, D_MODEL)}


def norm(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()


def attention(p, x, causal):
    B, T, C = x.shape
    hd = C // N_HEADS
    q, k, v = ((x @ p[n]).view(B, T, N_HEADS, hd).permute(0, 2, 1, 3) for n in ("wq", "wk", "wv"))
    a = torch.einsum("bhid,bhjd->bhij", q, k) / hd ** 0.5
    if causal:
        a = a - 1e30 * torch.ones(T, T).triu(1)      # subtract a huge number from the future
    a = torch.exp(a - a.logsumexp(-1, keepdim=True))
    return torch.einsum("bhij,bhjd->bihd", a, v).reshape(B, T, C) @ p["wo"]


def block(p, x, causal=True):
    x = x + attention(p, norm(x), causal)
    return x + torch.relu(norm(x) @ p["w1"]) @ p["w2"]


if __name__ == "__main__":
    params = init()
    print(block(params, torch.randn(2, 6, D_MODEL)).shape)
