import torch
from torch import nn

piliang, changdu, weidu, toushu = 2, 6, 32, 4   # 批量大小, 序列长度, 维度, 头数


def weilai_yanma(n):
    # 上三角（不含对角线）为1的位置是未来的词，需要遮住
    return torch.triu(torch.ones(n, n), diagonal=1).bool()


class ZiZhuYiLi(nn.Module):
    """自注意力，带因果掩码"""

    def __init__(self, weidu=weidu, toushu=toushu):
        super().__init__()
        self.toushu = toushu
        self.touwei = weidu // toushu
        self.suofang = self.touwei ** -0.5          # 缩放系数
        self.qkv = nn.Linear(weidu, weidu * 3, bias=False)
        self.shuchu = nn.Linear(weidu, weidu)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(b, n, self.toushu, self.touwei).permute(0, 2, 1, 3)
        k = k.view(b, n, self.toushu, self.touwei).permute(0, 2, 3, 1)  # 直接转置好: (b, h, d, n)
        v = v.view(b, n, self.toushu, self.touwei).permute(0, 2, 1, 3)
        fenshu = torch.matmul(q, k) * self.suofang
        fenshu = fenshu.masked_fill(weilai_yanma(n).to(x.device), -1e9)
        quanzhong = fenshu.softmax(dim=-1)
        jieguo = torch.matmul(quanzhong, v).permute(0, 2, 1, 3).reshape(b, n, c)
        return self.shuchu(jieguo)


ceshi = torch.rand(piliang, changdu, weidu)
print("输出形状:", ZiZhuYiLi()(ceshi).shape)
