import numpy as np

class LinearAttention:
    def __init__(self, d):
        rng = np.random.default_rng(0)
        self.Wq, self.Wk, self.Wv = (rng.normal(size=(d, d)) / d**0.5 for _ in range(3))
    def __call__(self, x):
        q, k, v = x @ self.Wq, x @ self.Wk, x @ self.Wv
        S = np.zeros((k.shape[-1], v.shape[-1])); y = []
        for t in range(len(x)):
            S = S + np.outer(k[t], v[t]); y.append(q[t] @ S)
        return np.stack(y)
