import torch


def retention_chunkwise(q, k, v, gamma, chunk_size=64):
    B, H, N, D = q.shape
    state = q.new_zeros(B, H, D, v.size(-1))
    out = []
    for s in range(0, N, chunk_size):
        qc, kc, vc = q[:, :, s : s + chunk_size], k[:, :, s : s + chunk_size], v[:, :, s : s + chunk_size]
        c = qc.size(2)
        i = torch.arange(c, dtype=q.dtype)
        mask = (gamma ** (i[:, None] - i[None, :])).tril()
        cross = (qc @ state) * (gamma ** torch.arange(c, dtype=q.dtype))[:, None]
        out.append((qc @ kc.mT * mask) @ vc + cross)
        state = gamma**c * state + (kc * gamma ** (c - 1 - i)[:, None]).mT @ vc
    return torch.cat(out, dim=2)
