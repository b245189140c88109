import numpy as np


def softmax(x):
    e_x = np.exp(x - np.max(x, axis=0))
    return e_x / e_x.sum(axis=0)


def attention(Q, K, V):
    """Q: (n, d)  K: (m, d)  V: (m, d_v)"""
    d = Q.shape[1]
    S = Q.dot(K.T) / np.sqrt(d)
    P = softmax(S)
    return P.dot(V)


if __name__ == "__main__":
    np.random.seed(0)
    x = np.random.rand(4, 8)
    print(attention(x, x, x))
