import torch


def attn_heads_last(q, k, v, key_mask=None):
    """q (B, N, H, D), k v (B, M, H, D), key_mask (B, M) True = real key.  returns (B, N, H, D)"""
    scores = (q.unsqueeze(2) * k.unsqueeze(1)).sum(-1) * q.shape[-1] ** -0.5    # (B, N, M, H)
    if key_mask is not None:
        scores = scores.masked_fill(~key_mask[:, None, :, None], float('-inf'))
    w = torch.softmax(scores, dim=2)        # M axis
    return (w.unsqueeze(-1) * v.unsqueeze(1)).sum(dim=2)


if __name__ == '__main__':
    q, k, v = torch.randn(2, 3, 4, 8), torch.randn(2, 5, 4, 8), torch.randn(2, 5, 4, 8)
    print(attn_heads_last(q, k, v).shape)
