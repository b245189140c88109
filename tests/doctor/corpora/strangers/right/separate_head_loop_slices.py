import math
import torch


def attention_per_head(X, Wq, Wk, Wv, Wo, n_heads, causal=True):
    """X (B, T, C); weights (C, C). Everything spelled out with loops, to be read."""
    B, T, C = X.shape
    hs = C // n_heads
    out = torch.zeros_like(X)
    for b in range(B):
        Q, K, V = X[b] @ Wq, X[b] @ Wk, X[b] @ Wv
        heads = []
        for h in range(n_heads):
            cols = slice(h * hs, (h + 1) * hs)
            q, k, v = Q[:, cols], K[:, cols], V[:, cols]
            rows = []
            for t in range(T):
                last = t + 1 if causal else T
                s = torch.stack([q[t].dot(k[j]) for j in range(last)]) / math.sqrt(hs)
                w = torch.softmax(s, dim=0)
                rows.append(sum(w[j] * v[j] for j in range(last)))
            heads.append(torch.stack(rows))
        out[b] = torch.cat(heads, dim=1) @ Wo
    return out


torch.manual_seed(1)
C = 12
W = [torch.randn(C, C) * C ** -0.5 for _ in range(4)]
print(attention_per_head(torch.randn(2, 4, C), *W, n_heads=3).shape)
