import torch


def partial(q, k, v, q0, k0, causal):
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        qi = q0 + torch.arange(q.shape[-2])[:, None]
        kj = k0 + torch.arange(k.shape[-2])[None, :]
        s = s.masked_fill(kj > qi, float('-inf'))
    lse = torch.logsumexp(s, dim=-1, keepdim=True)
    return torch.exp(s - lse) @ v, lse


def merge(o1, l1, o2, l2):
    l = torch.logaddexp(l1, l2)
    return o1 * torch.exp(l1 - l) + o2 * torch.exp(l2 - l), l


def ring_attention(q, k, v, world=3, causal=True):
    """q k v (b, h, n, d), n divisible by world; 'rank' r owns block r and receives kv blocks r-1, r-2, ..."""
    qs, ks, vs = (t.chunk(world, dim=-2) for t in (q, k, v))
    size = qs[0].shape[-2]
    outs = []
    for r in range(world):
        o, l = partial(qs[r], ks[r], vs[r], r * size, r * size, causal)     # own block first
        for step in range(1, world):
            src = (r - step) % world
            if causal and src > r:
                continue                                                     # entirely in the future
            o2, l2 = partial(qs[r], ks[src], vs[src], r * size, src * size, causal)
            o, l = merge(o, l, o2, l2)
        outs.append(o)
    return torch.cat(outs, dim=-2)


q, k, v = torch.randn(3, 1, 2, 6, 4)
print((ring_attention(q, k, v) - torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)).abs().max())
