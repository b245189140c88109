import torch
import torch.nn as nn


class Zhuyili(nn.Module):
    """交叉注意力：zuo 查询 you，changdu 为 you 中有效的个数"""

    def __init__(self, weidu, tou=2):
        super().__init__()
        self.tou = tou
        self.q = nn.Linear(weidu, weidu)
        self.k = nn.Linear(weidu, weidu)
        self.v = nn.Linear(weidu, weidu)
        self.chu = nn.Linear(weidu, weidu)

    def forward(self, zuo, you, changdu=None):
        B, N, D = zuo.shape
        M = you.shape[1]
        q = self.q(zuo).view(B, N, self.tou, -1).transpose(1, 2)
        k = self.k(you).view(B, M, self.tou, -1).transpose(1, 2)
        v = self.v(you).view(B, M, self.tou, -1).transpose(1, 2)
        fen = q @ k.transpose(-1, -2) / (D // self.tou) ** 0.5
        if changdu is not None:
            # 填充位置给一个很小的分数
            tian = torch.arange(M, device=you.device)[None, :] >= changdu[:, None]
            fen = fen.masked_fill(tian[:, None, None, :], -1000)
        quan = fen.softmax(-1)
        return self.chu((quan @ v).transpose(1, 2).reshape(B, N, D))


if __name__ == "__main__":
    print(Zhuyili(16)(torch.randn(2, 3, 16), torch.randn(2, 5, 16), torch.tensor([5, 2])).shape)
