import numpy as np
import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    """Adds sin/cos positional encodings to x of shape (batch, seq_len, d_model)."""

    def __init__(self, d_model, max_len=512):
        super().__init__()
        pe = np.zeros((max_len, d_model))
        for pos in range(max_len):
            for i in range(0, d_model, 2):
                pe[pos, i] = np.sin(pos / (10000 ** ((2 * i) / d_model)))
                pe[pos, i + 1] = np.cos(pos / (10000 ** ((2 * i) / d_model)))
        self.register_buffer("pe", torch.tensor(pe, dtype=torch.get_default_dtype()).unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]
