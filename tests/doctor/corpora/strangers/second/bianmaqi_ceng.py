# 编码器层:自注意力 -> 残差+层归一化 -> 前馈 -> 残差+层归一化
import torch
from torch import nn
import torch.nn.functional as F


class BianMaQiCeng(nn.Module):
    def __init__(self, weidu=32, toushu=4, yincang=64):
        super().__init__()
        self.toushu = toushu
        self.qkv = nn.Linear(weidu, weidu * 3)
        self.shuchu = nn.Linear(weidu, weidu)
        self.guiyi1 = nn.LayerNorm(weidu)
        self.guiyi2 = nn.LayerNorm(weidu)
        self.qiankui = nn.Sequential(nn.Linear(weidu, yincang), nn.ReLU(), nn.Linear(yincang, weidu))

    def zhuyili(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.toushu, c // self.toushu).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.shuchu(y.transpose(1, 2).reshape(b, n, c))

    def forward(self, x):
        # 残差连接与层归一化
        x = x + self.guiyi1(self.zhuyili(x))
        x = x + self.guiyi2(self.qiankui(x))
        return x


ceng = BianMaQiCeng()
print(ceng(torch.randn(2, 6, 32)).shape)
