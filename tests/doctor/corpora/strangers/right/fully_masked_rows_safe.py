import torch


def safe_masked_attention(q, k, v, keep):
    """q (B, H, N, D), keep (B, 1, N, M) or (B, 1, 1, M) bool. Rows that may see nothing give a zero vector."""
    s = torch.matmul(q, k.transpose(-1, -2)) / q.size(-1) ** 0.5
    s = s.masked_fill(~keep, float('-inf'))
    p = torch.softmax(s, dim=-1)
    p = torch.nan_to_num(p, nan=0.0)   # only rows that are all -inf are nan
    return torch.matmul(p, v)


if __name__ == '__main__':
    q, k, v = torch.randn(2, 2, 3, 4), torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 4)
    keep = torch.tensor([[True] * 5, [False] * 5])[:, None, None]
    print(safe_masked_attention(q, k, v, keep)[1].abs().sum())
