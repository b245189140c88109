# 多头注意力机制（Multi-Head Attention）从零实现
import math

import torch
import torch.nn as nn


def 缩放点积注意力(查询, 键, 值, 掩码=None):
    """查询: (批, 头, 长度q, 维度)；掩码为 0 的位置不参与注意力"""
    维度 = 查询.size(-1)
    分数 = torch.matmul(查询, 键.transpose(-2, -1)) / math.sqrt(维度)
    if 掩码 is not None:
        分数 = 分数.masked_fill(掩码 == 0, float('-inf'))
    权重 = torch.softmax(分数, dim=-1)
    return torch.matmul(权重, 值), 权重


class 多头注意力(nn.Module):
    def __init__(self, 模型维度, 头数):
        super().__init__()
        assert 模型维度 % 头数 == 0, "模型维度必须能被头数整除"
        self.头数 = 头数
        self.每头维度 = 模型维度 // 头数
        self.查询层 = nn.Linear(模型维度, 模型维度)
        self.键层 = nn.Linear(模型维度, 模型维度)
        self.值层 = nn.Linear(模型维度, 模型维度)
        self.输出层 = nn.Linear(模型维度, 模型维度)

    def 拆分(self, x):
        批, 长度, _ = x.shape
        return x.view(批, 长度, self.头数, self.每头维度).transpose(1, 2)

    def forward(self, q, k, v, 掩码=None):
        q, k, v = self.拆分(self.查询层(q)), self.拆分(self.键层(k)), self.拆分(self.值层(v))
        输出, _ = 缩放点积注意力(q, k, v, 掩码)
        批, _, 长度, _ = 输出.shape
        输出 = 输出.transpose(1, 2).contiguous().view(批, 长度, -1)   # 拼接所有头
        return self.输出层(输出)


if __name__ == "__main__":
    模型 = 多头注意力(64, 8)
    x = torch.randn(2, 10, 64)
    print(模型(x, x, x).shape)
