import torch
import torch.nn as nn
import torch.nn.functional as F

DIM = 8

to_q = nn.Linear(DIM, DIM, bias=False)
to_k = nn.Linear(DIM, DIM, bias=False)
to_v = nn.Linear(DIM, DIM, bias=False)


def attend(q, k, v):
    """q, k, v: (batch, seq, dim)"""
    scores = q @ k.T / (q.shape[-1] ** 0.5)
    weights = F.softmax(scores, dim=-1)
    return weights @ v


if __name__ == "__main__":
    x = torch.randn(8, 8, DIM)
    y = attend(to_q(x), to_k(x), to_v(x))
    print(y.shape)
