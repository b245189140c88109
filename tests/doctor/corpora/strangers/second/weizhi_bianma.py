# 位置编码 + 单层自注意力
import torch
from torch import nn


class WeiZhiBianMa(nn.Module):
    """正弦余弦位置编码: PE(pos,2i)=sin(pos/10000^(2i/d)), PE(pos,2i+1)=cos(pos/10000^(2i/d))"""

    def __init__(self, weidu, zuida=1000):
        super().__init__()
        weizhi = torch.arange(zuida, dtype=torch.float32).reshape(-1, 1)
        fenmu = torch.pow(1000, torch.arange(0, weidu, 2, dtype=torch.float32) / weidu)
        biao = torch.zeros(1, zuida, weidu)
        biao[:, :, 0::2] = torch.sin(weizhi / fenmu)
        biao[:, :, 1::2] = torch.cos(weizhi / fenmu)
        self.register_buffer('biao', biao)

    def forward(self, x):
        return x + self.biao[:, :x.shape[1], :]


class ZiZhuYiLi(nn.Module):
    def __init__(self, weidu):
        super().__init__()
        self.bianma = WeiZhiBianMa(weidu)
        self.q, self.k, self.v = nn.Linear(weidu, weidu), nn.Linear(weidu, weidu), nn.Linear(weidu, weidu)

    def forward(self, x):
        x = self.bianma(x)
        q, k, v = self.q(x), self.k(x), self.v(x)
        a = torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, dim=-1)
        return a @ v


print(ZiZhuYiLi(24)(torch.randn(2, 9, 24)).shape)
