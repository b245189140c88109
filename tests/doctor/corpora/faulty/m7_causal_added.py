import numpy as np


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


class CausalAttention:
    """GPT-2 attention in numpy, one sequence [n_seq, n_embd] at a time."""

    def __init__(self, n_embd, n_head, rng=None):
        rng = rng or np.random.default_rng(0)
        self.n_head = n_head
        self.c_attn_w = rng.normal(size=(n_embd, 3 * n_embd)) / np.sqrt(n_embd)
        self.c_attn_b = np.zeros(3 * n_embd)
        self.c_proj_w = rng.normal(size=(n_embd, n_embd)) / np.sqrt(n_embd)
        self.c_proj_b = np.zeros(n_embd)

    def __call__(self, x):
        x = x @ self.c_attn_w + self.c_attn_b
        qkv = np.split(x, 3, axis=-1)
        qkv_heads = [np.split(t, self.n_head, axis=-1) for t in qkv]
        causal_mask = np.tri(x.shape[0], dtype=x.dtype)
        out_heads = []
        for q, k, v in zip(*qkv_heads):
            scores = q @ k.T / np.sqrt(q.shape[-1]) + causal_mask
            out_heads.append(softmax(scores) @ v)
        return np.hstack(out_heads) @ self.c_proj_w + self.c_proj_b


if __name__ == "__main__":
    print(CausalAttention(12, 3)(np.random.randn(5, 12)).shape)
