import torch


def retention_chunkwise(q, k, v, gamma, chunk_size=64):
    """(B, H, N, D) in chunks; gamma (H,), one decay per head."""
    B, H, N, D = q.shape
    g = gamma.view(H, 1, 1).to(q)
    state = q.new_zeros(B, H, D, v.size(-1))
    out = []
    for s in range(0, N, chunk_size):
        qc, kc, vc = q[:, :, s : s + chunk_size], k[:, :, s : s + chunk_size], v[:, :, s : s + chunk_size]
        c = qc.size(2)
        i = torch.arange(c, dtype=q.dtype)
        mask = (g ** (i[:, None] - i[None, :])).tril()
        inner = (qc @ kc.mT * mask) @ vc
        cross = (qc @ state) * g ** (i[:, None] + 1)
        out.append(inner + cross)
        state = g**c * state + (kc * g ** (c - 1 - i)[:, None]).mT @ vc
    return torch.cat(out, dim=2)
