"""Streaming ASR attention: left context of `left` frames plus the current frame."""
import math
import torch
import torch.nn as nn


class StreamingEncoderAttention(nn.Module):
    def __init__(self, d=40, h=4, left=8):
        super().__init__()
        self.h, self.dk, self.left = h, d // h, left
        self.linear_q, self.linear_k = nn.Linear(d, d), nn.Linear(d, d)
        self.linear_v, self.linear_out = nn.Linear(d, d), nn.Linear(d, d)

    def init_state(self, batch):
        w = self.linear_q.weight
        return dict(k=w.new_zeros(batch, self.left + 1, self.h, self.dk),
                    v=w.new_zeros(batch, self.left + 1, self.h, self.dk),
                    pos=torch.full((self.left + 1,), -1), t=0)

    @torch.no_grad()
    def forward(self, chunk, state):
        """chunk: (B, n, d), n <= left + 1"""
        b, n, d = chunk.shape
        q = self.linear_q(chunk).view(b, n, self.h, self.dk)
        k = self.linear_k(chunk).view(b, n, self.h, self.dk)
        v = self.linear_v(chunk).view(b, n, self.h, self.dk)
        now = torch.arange(state["t"], state["t"] + n)
        size = self.left + 1
        # move the oldest frames out, the new frames in
        state["k"] = torch.cat([state["k"], k], dim=1)[:, -size:]
        state["v"] = torch.cat([state["v"], v], dim=1)[:, -size:]
        state["pos"] = torch.cat([state["pos"], now])[-size:]
        state["t"] += n
        keys, vals, at = state["k"], state["v"], state["pos"]
        gap = now[:, None] - at[None, :]
        ok = (at >= 0)[None, :] & (gap >= 0) & (gap <= self.left)
        s = torch.einsum("bihd,bjhd->bhij", q, keys) / math.sqrt(self.dk)
        p = s.masked_fill(~ok, float("-inf")).softmax(-1)
        return self.linear_out(torch.einsum("bhij,bjhd->bihd", p, vals).reshape(b, n, d))


if __name__ == "__main__":
    att = StreamingEncoderAttention().eval()
    st = att.init_state(1)
    print(torch.cat([att(c, st) for c in torch.randn(1, 24, 40).split(6, 1)], 1).shape)
