import torch


def chunk_attention(q, k, v, bias=None):
    s = torch.einsum('...qd,...kd->...qk', q, k)
    if bias is not None:
        s = s + bias
    m = s.amax(dim=-1, keepdim=True).detach()
    e = torch.exp(s - m)
    return e @ v, e.sum(-1), m.squeeze(-1)


def memory_efficient_attention(q, k, v, bias=None, key_chunk_size=4):
    """q (..., n, d); k, v (..., m, d); bias broadcastable to (..., n, m), finite (use -1e30 for masked)"""
    q = q * q.shape[-1] ** -0.5
    nums, dens, maxs = [], [], []
    for c in range(0, k.shape[-2], key_chunk_size):
        sl = slice(c, c + key_chunk_size)
        b = None if bias is None else bias[..., sl]
        num, den, mx = chunk_attention(q, k[..., sl, :], v[..., sl, :], b)
        nums.append(num)
        dens.append(den)
        maxs.append(mx)
    num, den, mx = torch.stack(nums), torch.stack(dens), torch.stack(maxs)
    g = mx.amax(0, keepdim=True)
    w = torch.exp(mx - g)
    return (num * w[..., None]).sum(0) / (den * w).sum(0)[..., None]
