# 旋转位置编码 (RoPE) 注意力
import torch
from torch import nn


def xuanzhuan(x, jichu=10000.0):
    """对 x 做旋转, 倒数第二维是位置, 最后一维是每头维度"""
    n, d = x.shape[-2:]
    pinlv = jichu ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    jiao = torch.arange(n, dtype=x.dtype)[:, None] * pinlv
    ou, ji = x[..., 0::2], x[..., 1::2]
    return torch.stack((ou * jiao.cos() - ji * jiao.sin(), ou * jiao.sin() + ji * jiao.cos()), -1).flatten(-2)


class XuanZhuanZhuYiLi(nn.Module):
    def __init__(self, weidu: int, toushu: int):
        super().__init__()
        self.toushu = toushu
        self.chaxun = nn.Linear(weidu, weidu)
        self.jian = nn.Linear(weidu, weidu)
        self.zhi = nn.Linear(weidu, weidu)
        self.shuchu = nn.Linear(weidu, weidu)

    def forward(self, x):
        b, n, c = x.shape
        # b 批量, n 长度, h 头, d 每头维度
        q = xuanzhuan(self.chaxun(x).view(b, n, self.toushu, -1))
        k = xuanzhuan(self.jian(x).view(b, n, self.toushu, -1))
        v = self.zhi(x).view(b, n, self.toushu, -1)
        fen = torch.einsum('bihd,bjhd->bhij', q, k) / q.shape[-1] ** 0.5
        quan = torch.softmax(fen, -1)
        return self.shuchu(torch.einsum('bhij,bjhd->bihd', quan, v).reshape(b, n, c))


if __name__ == '__main__':
    print(XuanZhuanZhuYiLi(32, 4)(torch.randn(2, 7, 32)).shape)
