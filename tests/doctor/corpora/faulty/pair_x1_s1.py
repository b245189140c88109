import torch


def attention(q, k, v):
    """q: (batch, n, d), k, v: (batch, m, d)"""
    scale = q.size(-1) ** -0.5
    energy = torch.bmm(q, k.transpose(1, 2)) / scale
    alpha = torch.softmax(energy, dim=1)
    return torch.bmm(alpha, v), alpha


if __name__ == "__main__":
    out, alpha = attention(torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 4))
    print(out.shape, alpha.sum(1))
