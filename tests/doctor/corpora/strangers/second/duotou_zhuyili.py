# -*- coding: utf-8 -*-
# 多头注意力 手写实现 —— 学习笔记(三)
import torch
from torch import nn


class DuoTouZhuYiLi(nn.Module):
    """多头注意力: 输入 (批量, 长度, 维度), 输出形状相同"""

    def __init__(self, weidu=64, toushu=4):
        super().__init__()
        assert weidu % toushu == 0
        self.toushu = toushu
        self.meitou = weidu // toushu          # 每个头的维度
        self.w_chaxun = nn.Linear(weidu, weidu)
        self.w_jian = nn.Linear(weidu, weidu)
        self.w_zhi = nn.Linear(weidu, weidu)
        self.w_shuchu = nn.Linear(weidu, weidu)

    def fen_tou(self, x):
        # 分头: (批量, 长度, 维度) -> (批量*头数, 长度, 每头维度)
        piliang, changdu, _ = x.shape
        return x.reshape(piliang * self.toushu, changdu, self.meitou)

    def forward(self, chaxun, jian, zhi):
        piliang, changdu, weidu = chaxun.shape
        q = self.fen_tou(self.w_chaxun(chaxun))
        k = self.fen_tou(self.w_jian(jian))
        v = self.fen_tou(self.w_zhi(zhi))
        fenshu = torch.bmm(q, k.transpose(1, 2)) / self.meitou ** 0.5
        quanzhong = torch.softmax(fenshu, dim=-1)      # 每一行加起来等于1
        jieguo = torch.bmm(quanzhong, v)
        jieguo = jieguo.reshape(piliang, self.toushu, changdu, self.meitou)
        jieguo = jieguo.permute(0, 2, 1, 3).reshape(piliang, changdu, weidu)
        return self.w_shuchu(jieguo)


zhuyili = DuoTouZhuYiLi()
x = torch.randn(2, 7, 64)
print(zhuyili(x, x, x).shape)   # torch.Size([2, 7, 64])
