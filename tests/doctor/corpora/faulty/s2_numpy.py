# Self-attention in plain numpy, for the blog post
import numpy as np

np.random.seed(42)


def softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


class SelfAttention:
    def __init__(self, d_model, d_k):
        self.d_k = d_k
        self.W_q = np.random.randn(d_model, d_k)
        self.W_k = np.random.randn(d_model, d_k)
        self.W_v = np.random.randn(d_model, d_k)

    def forward(self, x):
        Q = x @ self.W_q
        K = x @ self.W_k
        V = x @ self.W_v
        scores = np.matmul(Q, np.swapaxes(K, -1, -2))
        weights = softmax(scores, axis=-1)
        return np.matmul(weights, V), weights

    __call__ = forward


sentence = "the cat sat on the mat".split()
embeddings = np.random.randn(len(sentence), 16)
attn = SelfAttention(16, 8)
out, weights = attn(embeddings)
print("output", out.shape)
for word, row in zip(sentence, weights):
    print(f"{word:5s}", np.round(row, 2))
