import numpy as np


def attention_layer(x, params, n_heads):
    """x: (n, d). params: dict with 'Wq', 'Wk', 'Wv', 'Wo', each (d, d)."""
    n, d = x.shape
    dk = d // n_heads
    q, k, v = x @ params["Wq"], x @ params["Wk"], x @ params["Wv"]
    heads = []
    for i in range(n_heads):
        a, b = i * dk, (i + 1) * dk
        logits = q[:, a:b] @ k[:, a:b].T / np.sqrt(dk)
        logits -= logits.max(axis=1, keepdims=True)
        w = np.exp(logits)
        w /= w.sum(axis=1, keepdims=True)
        heads.append(w @ v[:, a:b])
    return np.concatenate(heads, axis=1) @ params["Wo"]


rng = np.random.default_rng(0)
P = {name: rng.normal(size=(32, 32)) / 6 for name in ("Wq", "Wk", "Wv", "Wo")}
print(attention_layer(rng.normal(size=(7, 32)), P, 4).shape)
