import math

import numpy as np
import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        x = x + self.pe[:, : x.size(1)].requires_grad_(False)
        return self.dropout(x)


def sinusoid_np(n_position, d_hid):
    pos = np.arange(n_position)[:, None]
    i = np.arange(d_hid)[None, :]
    angle = pos / np.power(10000, 2 * (i // 2) / np.float64(d_hid))
    angle[:, 0::2] = np.sin(angle[:, 0::2])
    angle[:, 1::2] = np.cos(angle[:, 1::2])
    return angle


def sinusoid_table(n, d):
    t = torch.zeros(n, d)
    for pos in range(n):
        for i in range(0, d, 2):
            w = 1 / 10000 ** (i / d)
            t[pos, i] = math.sin(pos * w)
            t[pos, i + 1] = math.cos(pos * w)
    return t


if __name__ == "__main__":
    print(np.abs(sinusoid_np(20, 8) - sinusoid_table(20, 8).numpy()).max())
