import numpy as np


def softmax(x):
    exp_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp_x / np.sum(exp_x, axis=-1, keepdims=True)


def linear(x, w, b):
    return x @ w + b


def attention(q, k, v, mask):  # [n_q, d_k], [n_k, d_k], [n_k, d_v], [n_q, n_k] -> [n_q, d_v]
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) * mask) @ v


def causal_self_attention(x, c_attn, c_proj, n_head):  # [n_seq, n_embd] -> [n_seq, n_embd]
    x = linear(x, **c_attn)
    qkv_heads = [np.split(t, n_head, axis=-1) for t in np.split(x, 3, axis=-1)]
    causal_mask = np.tri(x.shape[0], dtype=x.dtype)  # 1 = may look
    out_heads = [attention(q, k, v, causal_mask) for q, k, v in zip(*qkv_heads)]
    return linear(np.hstack(out_heads), **c_proj)


if __name__ == "__main__":
    r = np.random.RandomState(0)
    params = dict(c_attn=dict(w=r.randn(24, 72) * 0.1, b=np.zeros(72)), c_proj=dict(w=r.randn(24, 24) * 0.1, b=np.zeros(24)))
    print(causal_self_attention(r.randn(6, 24), **params, n_head=4).shape)
