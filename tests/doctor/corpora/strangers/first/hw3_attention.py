"""Homework 3 - multi head attention, forward pass."""
import torch


def attention_forward(x, p, h):
    """
    x : N x L x D
    p : dict with Wq, Wk, Wv, Wo (D x D) and bq, bk, bv, bo (D)
    h : number of heads
    """
    N, L, D = x.shape
    c = (D // h) ** -0.5
    q = (x @ p['Wq'] + p['bq']).reshape(N, L, h, D // h).permute(0, 2, 1, 3)
    k = (x @ p['Wk'] + p['bk']).reshape(N, L, h, D // h).permute(0, 2, 1, 3)
    v = (x @ p['Wv'] + p['bv']).reshape(N, L, h, D // h).permute(0, 2, 1, 3)
    e = torch.einsum('nhid,nhjd->nhij', q, k).div(c)
    a = e.softmax(3)
    y = torch.einsum('nhij,nhjd->nihd', a, v).reshape(N, L, D)
    return y @ p['Wo'] + p['bo']


def init(D, seed=231):
    g = torch.Generator().manual_seed(seed)
    p = {w: torch.randn(D, D, generator=g) / D ** 0.5 for w in ('Wq', 'Wk', 'Wv', 'Wo')}
    p.update({b: torch.zeros(D) for b in ('bq', 'bk', 'bv', 'bo')})
    return p


if __name__ == '__main__':
    print(attention_forward(torch.randn(2, 5, 24), init(24), 4).shape)
