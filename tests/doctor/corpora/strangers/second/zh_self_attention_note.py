# 从零实现 Transformer:自注意力部分
import math
import torch
import torch.nn as nn


class 多头注意力(nn.Module):
    def __init__(self, 维度, 头数, 丢弃率=0.1):
        super().__init__()
        self.头数 = 头数
        self.头维 = 维度 // 头数
        self.W_查询 = nn.Linear(维度, 维度)
        self.W_键 = nn.Linear(维度, 维度)
        self.W_值 = nn.Linear(维度, 维度)
        self.W_输出 = nn.Linear(维度, 维度)
        self.丢弃 = nn.Dropout(丢弃率)

    def 拆头(self, x):
        b, n, _ = x.shape
        return x.view(b, n, self.头数, self.头维).transpose(1, 2)

    def forward(self, 查询, 键, 值, 掩码=None):
        b, n, d = 查询.shape
        q = self.拆头(self.W_查询(查询))
        k = self.拆头(self.W_查询(键))
        v = self.拆头(self.W_值(值))
        # 缩放点积
        分数 = q @ k.transpose(-1, -2) / math.sqrt(self.头维)
        if 掩码 is not None:
            分数 = 分数.masked_fill(掩码 == 0, -1e9)
        权重 = self.丢弃(分数.softmax(-1))
        输出 = (权重 @ v).transpose(1, 2).reshape(b, n, d)
        return self.W_输出(输出)


if __name__ == "__main__":
    x = torch.randn(2, 5, 32)
    print(多头注意力(32, 4)(x, x, x).shape)
