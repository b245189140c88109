# 多头注意力:把头并到批量维上一起算
import torch
from torch import nn


class DuoTou(nn.Module):
    def __init__(self, d, tou):
        super().__init__()
        self.tou = tou
        self.Wq, self.Wk, self.Wv, self.Wo = [nn.Linear(d, d, bias=False) for _ in range(4)]

    def bian_xing(self, X):
        # (批量, 长度, d) -> (批量*头, 长度, d/头)
        X = X.reshape(X.shape[0], X.shape[1], self.tou, -1)
        X = X.permute(2, 0, 1, 3)
        return X.reshape(-1, X.shape[2], X.shape[3])

    def huan_yuan(self, X):
        # (批量*头, 长度, d/头) -> (批量, 长度, d)
        X = X.reshape(-1, self.tou, X.shape[1], X.shape[2])
        return X.permute(0, 2, 1, 3).flatten(2)

    def forward(self, chaxun, jian, zhi):
        q = self.bian_xing(self.Wq(chaxun))
        k = self.bian_xing(self.Wk(jian))
        v = self.bian_xing(self.Wv(zhi))
        quanzhong = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5, dim=-1)
        return self.Wo(self.huan_yuan(torch.bmm(quanzhong, v)))


if __name__ == '__main__':
    x = torch.randn(3, 6, 40)
    print(DuoTou(40, 5)(x, x, x).shape)
