import torch


def half_safe_attention(query, key, value, keep=None):
    """works for float16 / bfloat16 / float32. keep: bool, broadcastable to (..., q, k)"""
    dtype = query.dtype
    scale = query.shape[-1] ** -0.5
    sim = torch.matmul(query * scale, key.transpose(-1, -2)).float()
    if keep is not None:
        sim = sim.masked_fill(~keep, torch.finfo(sim.dtype).min)
    return torch.matmul(sim.softmax(dim=-1).to(dtype), value)


if __name__ == "__main__":
    for dt in (torch.float32, torch.bfloat16):
        q = torch.randn(1, 2, 5, 8, dtype=dt)
        keep = torch.ones(5, 5, dtype=torch.bool).tril()
        print(dt, half_safe_attention(q, q, q, keep).float().abs().max())
