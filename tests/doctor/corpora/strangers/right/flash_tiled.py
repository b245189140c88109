import math
import torch


def flash_attention_forward(Q, K, V, block_q=4, block_k=3, causal=False):
    """Q (b, h, n, d), K V (b, h, m, d).  Never builds the n x m matrix."""
    b, h, n, d = Q.shape
    m = K.shape[2]
    scale = 1.0 / math.sqrt(d)
    O = torch.zeros(b, h, n, V.shape[-1], dtype=Q.dtype)
    for i in range(0, n, block_q):
        q = Q[:, :, i:i + block_q] * scale
        rows = torch.arange(i, min(i + block_q, n))[:, None] + (m - n)
        mi = torch.full((b, h, q.shape[2], 1), float('-inf'), dtype=Q.dtype)
        li = torch.zeros(b, h, q.shape[2], 1, dtype=Q.dtype)
        acc = torch.zeros(b, h, q.shape[2], V.shape[-1], dtype=Q.dtype)
        for j in range(0, m, block_k):
            if causal and j > rows[-1].item():
                break
            s = q @ K[:, :, j:j + block_k].transpose(-1, -2)
            if causal:
                cols = torch.arange(j, min(j + block_k, m))[None, :]
                s = s.masked_fill(cols > rows, float('-inf'))
            m_new = torch.maximum(mi, s.amax(-1, keepdim=True))
            p = torch.exp(s - m_new)
            alpha = torch.exp(mi - m_new)
            li = alpha * li + p.sum(-1, keepdim=True)
            acc = alpha * acc + p @ V[:, :, j:j + block_k]
            mi = m_new
        O[:, :, i:i + block_q] = acc / li
    return O


if __name__ == '__main__':
    q, k, v = torch.randn(3, 1, 2, 10, 8)
    ref = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    print((flash_attention_forward(q, k, v, causal=True) - ref).abs().max())
