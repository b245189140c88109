import torch
import torch.nn.functional as F
from torch import nn


def with_pos_embed(tensor, pos):
    return tensor if pos is None else tensor + pos


class DetrEncoderLayer(nn.Module):
    def __init__(self, d_model=32, nhead=4, dim_feedforward=64, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout, self.dropout1, self.dropout2 = nn.Dropout(dropout), nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, src, src_key_padding_mask=None, pos=None):
        # src: (HW, B, C)
        q = k = with_pos_embed(src, pos)
        src2 = self.self_attn(q, k, value=src, key_padding_mask=src_key_padding_mask)[0]
        src = self.norm1(src + self.dropout1(src2))
        src2 = self.linear2(self.dropout(F.relu(self.linear1(src))))
        return self.norm2(src + self.dropout2(src2))


layer = DetrEncoderLayer().eval()
print(layer(torch.randn(12, 2, 32), pos=torch.randn(12, 1, 32)).shape)
