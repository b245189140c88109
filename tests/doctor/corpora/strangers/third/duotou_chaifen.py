# 多头注意力：把输入拆成多个头分别计算，再拼接起来
import math

import torch
from torch import nn


def suofang_dianji(q, k, v, yanma=None):
    """缩放点积注意力。yanma 为 0 的位置会被遮住。"""
    d = q.shape[-1]
    fen = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d)
    if yanma is not None:
        fen = fen.masked_fill(yanma == 0, -1e9)
    quan = torch.softmax(fen, dim=-1)
    return torch.matmul(quan, v), quan


class DuoTouZhuYi(nn.Module):
    def __init__(self, d_moxing, tou):
        super().__init__()
        assert d_moxing % tou == 0, "维度必须能被头数整除"
        self.tou = tou
        self.d_tou = d_moxing // tou
        self.wq = nn.Linear(d_moxing, d_moxing)
        self.wk = nn.Linear(d_moxing, d_moxing)
        self.wv = nn.Linear(d_moxing, d_moxing)
        self.wo = nn.Linear(d_moxing, d_moxing)

    def fen_tou(self, x):
        piliang, changdu, _ = x.shape
        return x.reshape(piliang, self.tou, changdu, self.d_tou)

    def forward(self, q, k, v, yanma=None):
        q, k, v = self.fen_tou(self.wq(q)), self.fen_tou(self.wk(k)), self.fen_tou(self.wv(v))
        if yanma is not None:
            yanma = yanma.unsqueeze(1)
        shuchu, quan = suofang_dianji(q, k, v, yanma)
        piliang, tou, changdu, d = shuchu.shape
        shuchu = shuchu.transpose(1, 2).reshape(piliang, changdu, tou * d)
        return self.wo(shuchu)
