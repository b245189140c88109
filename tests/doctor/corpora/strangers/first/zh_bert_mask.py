import torch
import torch.nn as nn


class ZiZhuYiLi(nn.Module):
    """多头自注意力。yanma: (批次, 长度)，1 为真实的字，0 为补齐的字"""

    def __init__(self, yincang=64, toushu=4):
        super().__init__()
        self.toushu = toushu
        self.meitou = yincang // toushu
        self.chaxun = nn.Linear(yincang, yincang)
        self.jian = nn.Linear(yincang, yincang)
        self.zhi = nn.Linear(yincang, yincang)
        self.shuchu = nn.Linear(yincang, yincang)

    def chai(self, x):
        return x.view(x.size(0), x.size(1), self.toushu, self.meitou).permute(0, 2, 1, 3)

    def forward(self, x, yanma=None):
        q, k, v = self.chai(self.chaxun(x)), self.chai(self.jian(x)), self.chai(self.zhi(x))
        gailv = torch.softmax(q.matmul(k.transpose(-1, -2)) / self.meitou ** 0.5, dim=-1)
        if yanma is not None:
            # 补齐位置的概率置零
            gailv = gailv.masked_fill(yanma[:, None, None, :] == 0, 0.0)
        y = gailv.matmul(v).permute(0, 2, 1, 3).reshape(x.shape)
        return self.shuchu(y)


moxing = ZiZhuYiLi()
print(moxing(torch.randn(2, 5, 64), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])).shape)
