import torch


def retention_chunkwise(q, k, v, gamma, chunk):
    """q, k, v (B, N, D), N a multiple of chunk."""
    B, N, D = q.shape
    q, k, v = (x.view(B, N // chunk, chunk, -1) for x in (q, k, v))
    pos = torch.arange(chunk, dtype=q.dtype)
    mask = torch.tril(gamma ** (pos[:, None] - pos[None, :]))
    S = torch.zeros(B, D, v.shape[-1], dtype=q.dtype)
    outs = []
    for c in range(N // chunk):
        inner = (torch.einsum("bid,bjd->bij", q[:, c], k[:, c]) * mask) @ v[:, c]
        cross = torch.einsum("bid,bde->bie", q[:, c] * (gamma ** (pos + 1))[:, None], S)
        outs.append(inner + cross)
        S = gamma * S + torch.einsum("bjd,bje->bde", k[:, c] * (gamma ** (chunk - 1 - pos))[:, None], v[:, c])
    return torch.stack(outs, 1).reshape(B, N, -1)
