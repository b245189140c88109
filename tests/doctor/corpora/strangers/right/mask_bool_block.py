import torch


def attention(q, k, v, key_padding_mask=None, attn_mask=None):
    """
    q: (B, H, Lq, E), k/v: (B, H, Lk, E)
    key_padding_mask: (B, Lk) bool, True marks padding that must be ignored
    attn_mask: (Lq, Lk) bool, True marks pairs that must not be attended
    """
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if attn_mask is not None:
        scores = scores.masked_fill(attn_mask, float("-inf"))
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
    return torch.softmax(scores, dim=-1) @ v


if __name__ == "__main__":
    B, H, L, E = 2, 4, 6, 8
    x = torch.randn(B, H, L, E)
    pad = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    causal = torch.ones(L, L, dtype=torch.bool).triu(1)
    print(attention(x, x, x, pad, causal).isnan().any())
