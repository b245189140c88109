import numpy as np


def softmax(x):
    return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)


def multi_head_attention(x, weights, n_head):
    """x: [n_seq, n_embd]; weights: dict with 'qkv' [n_embd, 3*n_embd] and 'proj' [n_embd, n_embd]"""
    qkv = x @ weights["qkv"]
    q, k, v = np.split(qkv, 3, axis=-1)
    heads = []
    for qh, kh, vh in zip(*(np.split(m, n_head, axis=-1) for m in (q, k, v))):
        a = softmax(qh @ kh.T / np.sqrt(qh.shape[-1]))
        heads.append(a @ vh)
    return np.hstack(heads) @ weights["proj"]


if __name__ == "__main__":
    rs = np.random.RandomState(0)
    w = {"qkv": rs.randn(16, 48) * 0.1, "proj": rs.randn(16, 16) * 0.1}
    print(multi_head_attention(rs.randn(5, 16), w, 4).shape)
