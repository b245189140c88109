"""编码器的一层：多头自注意力 + 前馈网络。"""
import math

import torch
import torch.nn as nn


class DuoTou(nn.Module):
    def __init__(self, weidu, toushu):
        super().__init__()
        self.toushu = toushu
        self.mei_tou = weidu // toushu
        self.W_cha = nn.Linear(weidu, weidu)
        self.W_jian = nn.Linear(weidu, weidu)
        self.W_zhi = nn.Linear(weidu, weidu)
        self.W_chu = nn.Linear(weidu, weidu)

    def chai(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.toushu, self.mei_tou).transpose(1, 2)

    def forward(self, x):
        b, n, w = x.shape
        cha, jian, zhi = self.chai(self.W_cha(x)), self.chai(self.W_jian(x)), self.chai(self.W_zhi(x))
        fenshu = cha @ jian.transpose(-1, -2) / math.sqrt(self.mei_tou)
        quanzhong = torch.softmax(fenshu, dim=-1)
        chu = (quanzhong @ zhi).transpose(1, 2).reshape(b, n, w)
        return self.W_chu(chu)


class QianKui(nn.Module):
    def __init__(self, weidu, yincang):
        super().__init__()
        self.w1 = nn.Linear(weidu, yincang)
        self.w2 = nn.Linear(yincang, weidu)

    def forward(self, x):
        return self.w2(torch.relu(self.w1(x)))


class BianMaCeng(nn.Module):
    """残差连接后做层归一化（post-norm）。"""

    def __init__(self, weidu=64, toushu=8, yincang=256):
        super().__init__()
        self.weidu = weidu
        self.zhuyi = DuoTou(weidu, toushu)
        self.qiankui = QianKui(weidu, yincang)

    def forward(self, x):
        x = nn.LayerNorm(self.weidu)(x + self.zhuyi(x))
        return nn.LayerNorm(self.weidu)(x + self.qiankui(x))
