import torch
import torch.nn.functional as F


def attend(x_q, x_kv, w, n_q_heads, n_kv_heads, mask=None):
    """w: dict with q (D, Hq*d), k (D, Hkv*d), v (D, Hkv*d), o (Hq*d, D)"""
    B, N, _ = x_q.shape
    M = x_kv.shape[1]
    q = (x_q @ w["q"]).reshape(B, N, n_q_heads, -1).transpose(1, 2)
    k = (x_kv @ w["k"]).reshape(B, M, n_kv_heads, -1).transpose(1, 2)
    v = (x_kv @ w["v"]).reshape(B, M, n_kv_heads, -1).transpose(1, 2)
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=q.size(-1) ** -0.5, enable_gqa=True)
    return o.transpose(1, 2).reshape(B, N, -1) @ w["o"]


if __name__ == "__main__":
    D, d = 24, 6
    w = {"q": torch.randn(D, 4 * d), "k": torch.randn(D, 2 * d), "v": torch.randn(D, 2 * d), "o": torch.randn(4 * d, D)}
    print(attend(torch.randn(2, 5, D), torch.randn(2, 7, D), w, 4, 2).shape)
