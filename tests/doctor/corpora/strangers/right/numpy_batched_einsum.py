import numpy as np


def self_attention(x, wq, wk, wv, wo, lengths=None):
    """x (b, t, m); wq wk wv (h, m, d); wo (h, d, m); lengths list of b ints"""
    q = np.einsum('btm,hmd->bhtd', x, wq) / np.sqrt(wq.shape[-1])
    k = np.einsum('btm,hmd->bhtd', x, wk)
    v = np.einsum('btm,hmd->bhtd', x, wv)
    logits = np.einsum('bhtd,bhsd->bhts', q, k)
    if lengths is not None:
        valid = np.arange(x.shape[1])[None, :] < np.asarray(lengths)[:, None]
        logits = np.where(valid[:, None, None, :], logits, -np.inf)
    logits -= logits.max(-1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(-1, keepdims=True)
    return np.einsum('bhts,bhsd,hdm->btm', p, v, wo)


if __name__ == '__main__':
    g = np.random.default_rng(3)
    w = [g.normal(size=(4, 20, 5)) for _ in range(3)]
    print(self_attention(g.normal(size=(2, 6, 20)), *w, g.normal(size=(4, 5, 20)), [6, 2]).shape)
