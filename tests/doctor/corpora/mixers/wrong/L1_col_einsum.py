import torch

def retention(q, k, v, gamma):
    n = q.size(-2)
    w = gamma ** torch.arange(n, dtype=q.dtype).flip(0)
    scores = torch.einsum("bhid,bhjd->bhij", q, k)
    scores = scores * w[None, None, None, :]
    scores = torch.tril(scores)
    return torch.einsum("bhij,bhje->bhie", scores, v)
