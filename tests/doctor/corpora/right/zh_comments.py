# 从零实现 Transformer 的多头注意力(学习笔记)
import math

import torch
import torch.nn as nn

# 超参数
d_model = 512
n_heads = 8
max_len = 256
drop_prob = 0.1


class MultiHeadAttention(nn.Module):
    """多头注意力:q、k、v 形状 (batch, seq_len, d_model)"""

    def __init__(self):
        super().__init__()
        assert d_model % n_heads == 0, "d_model 必须能被 n_heads 整除"
        self.d_k = d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(drop_prob)

    def forward(self, q, k, v, mask=None):
        batch = q.size(0)
        # 1. 线性变换,再拆成多个头
        q = self.w_q(q).view(batch, -1, n_heads, self.d_k).transpose(1, 2)
        k = self.w_k(k).view(batch, -1, n_heads, self.d_k).transpose(1, 2)
        v = self.w_v(v).view(batch, -1, n_heads, self.d_k).transpose(1, 2)
        # 2. 点积并缩放
        score = q @ k.transpose(-1, -2) / math.sqrt(self.d_k)
        # 3. 屏蔽:mask 为 0 的位置填负无穷
        if mask is not None:
            score = score.masked_fill(mask == 0, float("-inf"))
        # 4. softmax 得到权重
        attn = self.dropout(torch.softmax(score, dim=-1))
        # 5. 加权求和,合并各头
        out = (attn @ v).transpose(1, 2).contiguous().view(batch, -1, d_model)
        return self.w_o(out)


class PositionalEncoding(nn.Module):
    """正弦位置编码"""

    def __init__(self):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        pos = torch.arange(max_len).unsqueeze(1).float()
        div = torch.pow(torch.tensor(10000.0), torch.arange(0, d_model, 2).float() / d_model)
        pe[:, 0::2] = torch.sin(pos / div)
        pe[:, 1::2] = torch.cos(pos / div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = MultiHeadAttention()
        self.norm1 = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, 2048), nn.ReLU(), nn.Linear(2048, d_model))
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attn(x, x, x, mask))
        return self.norm2(x + self.ffn(x))


x = torch.randn(2, 10, d_model)
print("输出形状:", EncoderLayer()(x).shape)
