import numpy as np


class SelfAttention:
    def __init__(self, d_in, d_k, seed=0):
        rng = np.random.RandomState(seed)
        self.Wq = rng.randn(d_in, d_k) / np.sqrt(d_in)
        self.Wk = rng.randn(d_in, d_k) / np.sqrt(d_in)
        self.Wv = rng.randn(d_in, d_k) / np.sqrt(d_in)
        self.d_k = d_k

    @staticmethod
    def softmax(a):
        a = np.exp(a - np.max(a, axis=-1, keepdims=True))
        return a / np.sum(a, axis=-1, keepdims=True)

    def __call__(self, X):
        # X has shape (batch, tokens, d_in)
        Q, K, V = X @ self.Wq, X @ self.Wk, X @ self.Wv
        A = self.softmax(Q @ K.T / np.sqrt(self.d_k))
        return A @ V


if __name__ == "__main__":
    X = np.random.randn(4, 4, 16)
    print(SelfAttention(16, 4)(X).shape)
