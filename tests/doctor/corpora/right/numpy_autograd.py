"""Self-attention with a hand written backward pass."""

import numpy as np


class SelfAttention:
    def __init__(self, d_model, d_k, seed=0):
        rng = np.random.RandomState(seed)
        self.params = {
            "Wq": rng.randn(d_model, d_k) / np.sqrt(d_model),
            "Wk": rng.randn(d_model, d_k) / np.sqrt(d_model),
            "Wv": rng.randn(d_model, d_k) / np.sqrt(d_model),
        }
        self.grads = {}
        self.d_k = d_k

    def forward(self, x):
        # x (batch, seq, d_model)
        p = self.params
        self.x = x
        self.q, self.k, self.v = x @ p["Wq"], x @ p["Wk"], x @ p["Wv"]
        s = self.q @ self.k.swapaxes(1, 2) / np.sqrt(self.d_k)
        s = s - s.max(axis=2, keepdims=True)
        e = np.exp(s)
        self.a = e / e.sum(axis=2, keepdims=True)
        return self.a @ self.v

    def backward(self, dout):
        p = self.params
        da = dout @ self.v.swapaxes(1, 2)
        dv = self.a.swapaxes(1, 2) @ dout
        ds = self.a * (da - (da * self.a).sum(axis=2, keepdims=True)) / np.sqrt(self.d_k)
        dq, dk = ds @ self.k, ds.swapaxes(1, 2) @ self.q
        for name, d in (("Wq", dq), ("Wk", dk), ("Wv", dv)):
            self.grads[name] = np.einsum("bni,bnj->ij", self.x, d)
        return dq @ p["Wq"].T + dk @ p["Wk"].T + dv @ p["Wv"].T
