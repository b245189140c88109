import numpy as np


class StreamingAttention:
    """softmax(q.k / sqrt(d)) @ v over a stream of (k, v) pairs; O(1) memory in the number of keys"""

    def __init__(self, q):
        self.q = np.asarray(q, dtype=np.float64) / np.sqrt(len(q))
        self.m = -np.inf
        self.z = 0.0
        self.acc = None

    def push(self, k, v):
        s = float(self.q @ k)
        m = max(self.m, s)
        old = np.exp(self.m - m)
        w = np.exp(s - m)
        self.acc = w * np.asarray(v) if self.acc is None else old * self.acc + w * np.asarray(v)
        self.z = old * self.z + w
        self.m = m

    def result(self):
        return self.acc / self.z


def attend(q, K, V):
    st = StreamingAttention(q)
    for k, v in zip(K, V):
        st.push(k, v)
    return st.result()


rng = np.random.default_rng(7)
print(attend(rng.normal(size=4), rng.normal(size=(9, 4)), rng.normal(size=(9, 3))))
