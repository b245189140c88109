# -*- coding: utf-8 -*-
# 自注意力机制的实现（单头），输入形状 (批次, 长度, 维度)
import torch
import torch.nn as nn
import torch.nn.functional as F


class ZiZhuYi(nn.Module):
    """自注意力层"""

    def __init__(self, weidu):
        super().__init__()
        self.weidu = weidu
        self.W_chaxun = nn.Linear(weidu, weidu, bias=False)
        self.W_jian = nn.Linear(weidu, weidu, bias=False)
        self.W_zhi = nn.Linear(weidu, weidu, bias=False)

    def forward(self, x):
        chaxun = self.W_chaxun(x)
        jian = self.W_jian(x)
        zhi = self.W_zhi(x)
        # 第一步：计算缩放点积得分 (批次, 长度, 长度)
        fenshu = torch.bmm(chaxun, jian.transpose(1, 2))
        # 第二步：归一化得到注意力权重
        quanzhong = F.softmax(fenshu, dim=-1)
        # 第三步：加权求和
        return torch.bmm(quanzhong, zhi)


if __name__ == '__main__':
    x = torch.randn(2, 6, 16)
    print(ZiZhuYi(16)(x).shape)
