import torch
import torch.nn as nn


class DuoTouZhuYiLi(nn.Module):
    """多头注意力，可用于解码器对编码器的交叉注意力"""

    def __init__(self, weidu, toushu):
        super().__init__()
        self.toushu, self.dk = toushu, weidu // toushu
        self.xq = nn.Linear(weidu, weidu)
        self.xk = nn.Linear(weidu, weidu)
        self.xv = nn.Linear(weidu, weidu)
        self.xo = nn.Linear(weidu, weidu)

    def forward(self, chaxun, jian, zhi):
        pici, changdu = chaxun.size(0), chaxun.size(1)
        q = self.xq(chaxun).view(pici, changdu, self.toushu, self.dk).permute(0, 2, 1, 3)
        k = self.xk(jian).view(pici, changdu, self.toushu, self.dk).permute(0, 2, 3, 1)
        v = self.xv(zhi).view(pici, changdu, self.toushu, self.dk).permute(0, 2, 1, 3)
        quanzhong = torch.softmax(q @ k / self.dk ** 0.5, dim=-1)
        jieguo = (quanzhong @ v).permute(0, 2, 1, 3).reshape(pici, changdu, -1)
        return self.xo(jieguo)


if __name__ == "__main__":
    jiema, bianma = torch.randn(2, 6, 32), torch.randn(2, 6, 32)
    print(DuoTouZhuYiLi(32, 4)(jiema, bianma, bianma).shape)
