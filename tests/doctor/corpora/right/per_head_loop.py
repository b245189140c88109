import math

import torch
import torch.nn as nn


class MHSA(nn.Module):
    """Image by image, head by head, no batched matmul anywhere: slow but clear."""

    def __init__(self, d, n_heads=2):
        super().__init__()
        self.d, self.n_heads, self.d_head = d, n_heads, d // n_heads
        make = lambda: nn.ModuleList(nn.Linear(d, self.d_head) for _ in range(n_heads))
        self.q_mappings, self.k_mappings, self.v_mappings = make(), make(), make()
        self.out_mapping = nn.Linear(d, d)

    def one_image(self, tokens):
        heads = []
        for to_q, to_k, to_v in zip(self.q_mappings, self.k_mappings, self.v_mappings):
            similarity = to_q(tokens) @ to_k(tokens).T
            heads.append((similarity / math.sqrt(self.d_head)).softmax(dim=1) @ to_v(tokens))
        return torch.cat(heads, dim=1)

    def forward(self, images):
        return self.out_mapping(torch.stack([self.one_image(im) for im in images]))


class ViTBlock(nn.Module):
    def __init__(self, hidden_d, n_heads, mlp_ratio=4):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden_d), nn.LayerNorm(hidden_d)
        self.mhsa = MHSA(hidden_d, n_heads)
        wide = mlp_ratio * hidden_d
        self.mlp = nn.Sequential(nn.Linear(hidden_d, wide), nn.GELU(), nn.Linear(wide, hidden_d))

    def forward(self, x):
        x = x + self.mhsa(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def get_positional_embeddings(sequence_length, d):
    rows = []
    for pos in range(sequence_length):
        row = []
        for j in range(d):
            angle = pos / 10000 ** ((j - j % 2) / d)
            row.append(math.cos(angle) if j % 2 else math.sin(angle))
        rows.append(row)
    return torch.tensor(rows)
