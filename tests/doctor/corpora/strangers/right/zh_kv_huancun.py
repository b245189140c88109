# 带KV缓存的注意力：预填充一次，之后逐词解码
import torch
from torch import nn


class KVHuanCun:
    def __init__(self, pi, tou, zuida, wei):
        self.k = torch.zeros(pi, tou, zuida, wei)
        self.v = torch.zeros(pi, tou, zuida, wei)
        self.changdu = 0                                   # 已缓存的长度

    def xieru(self, k, v):
        n = k.size(2)
        self.k[:, :, self.changdu:self.changdu + n] = k
        self.v[:, :, self.changdu:self.changdu + n] = v
        self.changdu += n
        return self.k[:, :, :self.changdu], self.v[:, :, :self.changdu]


def xuanzhuan(x, qidian):
    d = x.size(-1)
    pinlv = 10000 ** (-torch.arange(0, d, 2).float() / d)
    jiao = (torch.arange(x.size(-2)) + qidian).float()[:, None] * pinlv
    c, s = jiao.cos(), jiao.sin()
    a, b = x[..., :d // 2], x[..., d // 2:]               # 前半与后半配对
    return torch.cat([a * c - b * s, b * c + a * s], -1)


class DaiHuanCunZhuYiLi(nn.Module):
    def __init__(self, wei=32, tou=4):
        super().__init__()
        self.tou = tou
        self.q, self.k, self.v, self.o = (nn.Linear(wei, wei, bias=False) for _ in range(4))

    @torch.no_grad()
    def forward(self, x, huancun=None):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.tou, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        qidian = 0 if huancun is None else huancun.changdu  # 写入前的长度就是起点
        q, k = xuanzhuan(q, qidian), xuanzhuan(k, qidian)
        if huancun is not None:
            k, v = huancun.xieru(k, v)
        fenshu = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        m = k.size(2)
        zhedang = torch.ones(n, m, dtype=torch.bool).triu(m - n + 1)   # 右下对齐的因果掩码
        fenshu = fenshu.masked_fill(zhedang, float('-inf'))
        return self.o((fenshu.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))
