import numpy as np

def retention(Q, K, V, gamma=0.9):
    "Q, K, V: (batch, seq, dim)"
    n = Q.shape[1]
    idx = np.arange(n)
    D = np.where(idx[:, None] >= idx[None], gamma ** np.abs(idx[:, None] - idx[None]), 0)
    A = np.einsum('bnd,bmd->bnm', Q, K) * D
    return np.einsum('bnm,bme->bne', A, V)
