import numpy as np

np.random.seed(42)

n_tokens, d_model, n_heads = 6, 16, 4
d_head = d_model // n_heads

params = {
    f"head{i}": {name: np.random.randn(d_model, d_head) * 0.3 for name in ("Wq", "Wk", "Wv")}
    for i in range(n_heads)
}
params["Wo"] = np.random.randn(d_model, d_model) * 0.3


def stable_softmax(z):
    z = np.exp(z - np.max(z, axis=-1, keepdims=True))
    return z / np.sum(z, axis=-1, keepdims=True)


def attention_head(x, p, causal=False):
    q, k, v = x @ p["Wq"], x @ p["Wk"], x @ p["Wv"]      # each (n, d_head)
    s = np.dot(q, k.T) / np.sqrt(k.shape[1])
    if causal:
        s[np.triu_indices(len(x), k=1)] = -np.inf
    return stable_softmax(s) @ v


def multi_head(x, params, causal=False):
    heads = [attention_head(x, params[f"head{i}"], causal) for i in range(n_heads)]
    return np.concatenate(heads, axis=-1) @ params["Wo"]


tokens = np.random.randn(n_tokens, d_model)
print(multi_head(tokens, params, causal=True).round(3)[0])
