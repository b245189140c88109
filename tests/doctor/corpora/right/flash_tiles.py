"""FlashAttention in plain PyTorch: never builds the N x N matrix, online softmax over tiles."""

import torch


def flash_attention(Q, K, V, causal: bool = False, block_q: int = 4, block_k: int = 3):
    """Q (B, H, N, d), K (B, H, M, d), V (B, H, M, dv)"""
    B, H, N, d = Q.shape
    M = K.shape[2]
    scale = d**-0.5
    out = torch.zeros(B, H, N, V.shape[-1], dtype=Q.dtype, device=Q.device)
    for qs in range(0, N, block_q):
        q = Q[:, :, qs : qs + block_q] * scale
        nq = q.shape[2]
        acc = torch.zeros(B, H, nq, V.shape[-1], dtype=Q.dtype, device=Q.device)
        row_max = torch.full((B, H, nq, 1), float("-inf"), dtype=Q.dtype, device=Q.device)
        row_sum = torch.zeros(B, H, nq, 1, dtype=Q.dtype, device=Q.device)
        for ks in range(0, M, block_k):
            if causal and ks > qs + nq - 1:
                break
            k, v = K[:, :, ks : ks + block_k], V[:, :, ks : ks + block_k]
            s = q @ k.transpose(-1, -2)
            if causal:
                i = torch.arange(qs, qs + nq, device=Q.device)[:, None]
                j = torch.arange(ks, ks + k.shape[2], device=Q.device)[None, :]
                s = s.masked_fill(j > i, float("-inf"))
            new_max = torch.maximum(row_max, s.amax(-1, keepdim=True))
            p = torch.exp(s - new_max)
            alpha = torch.exp(row_max - new_max)  # 0 for the first tile
            row_sum = row_sum * alpha + p.sum(-1, keepdim=True)
            acc = acc * alpha + p @ v
            row_max = new_max
        out[:, :, qs : qs + nq] = acc / row_sum
    return out


if __name__ == "__main__":
    q, k, v = (torch.randn(2, 3, 17, 8) for _ in range(3))
    ref = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    print((flash_attention(q, k, v, True) - ref).abs().max())
