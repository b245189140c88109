"""Different kinds of positional encodings in one place"""

import math

import numpy as np
import torch
from torch import nn


def sinusoidal_table(n_pos, dim):
    """numpy, interleaved sin / cos"""
    pe = np.zeros((n_pos, dim))
    for pos in range(n_pos):
        for i in range(0, dim, 2):
            angle = pos / (10000 ** (i / dim))
            pe[pos, i] = math.sin(angle)
            if i + 1 < dim:
                pe[pos, i + 1] = math.cos(angle)
    return pe


def get_timing_signal(length, channels, min_timescale=1.0, max_timescale=1.0e4):
    """tensor2tensor flavour: all the sines, then all the cosines"""
    position = torch.arange(length, dtype=torch.float64)
    num_timescales = channels // 2
    log_inc = math.log(max_timescale / min_timescale) / max(num_timescales - 1, 1)
    inv = min_timescale * torch.exp(torch.arange(num_timescales, dtype=torch.float64) * -log_inc)
    scaled = position[:, None] * inv[None, :]
    return torch.cat([torch.sin(scaled), torch.cos(scaled)], dim=1)


class SinusoidalPositionalEmbedding(nn.Module):
    """concatenated, frequencies of the original paper"""

    def __init__(self, embedding_dim, max_positions=1024):
        super().__init__()
        half = embedding_dim // 2
        freq = 10000.0 ** (-torch.arange(half, dtype=torch.float64) * 2 / embedding_dim)
        ang = torch.arange(max_positions, dtype=torch.float64).unsqueeze(1) * freq
        self.register_buffer("weights", torch.cat((ang.sin(), ang.cos()), dim=1), persistent=False)

    def forward(self, x):
        return x + self.weights[: x.size(1)].to(x.dtype)


class SeqFirstPositionalEncoding(nn.Module):
    """x: (seq_len, batch, d_model)"""

    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 5000):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        x = x + self.pe[: x.size(0)]
        return self.dropout(x)


class LearnedPositionalEncoding(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.emb = nn.Embedding(max_len, d_model)

    def forward(self, x):
        positions = torch.arange(x.size(1), device=x.device)
        return x + self.emb(positions)[None, :, :]


class ViTPositions(nn.Module):
    def __init__(self, num_patches, dim):
        super().__init__()
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, num_patches + 1, dim) * 0.02)

    def forward(self, x):
        x = torch.cat([self.cls_token.expand(x.size(0), -1, -1), x], dim=1)
        return x + self.pos_embed[:, : x.size(1)]


if __name__ == "__main__":
    import matplotlib.pyplot as plt

    plt.imshow(sinusoidal_table(50, 128), aspect="auto")
    plt.show()
