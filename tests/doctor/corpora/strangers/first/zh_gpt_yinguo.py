import torch
import torch.nn as nn


class YinGuoZhuYiLi(nn.Module):
    """因果多头注意力（只能看到左边）。tianchong: (批次, 长度)，True 为填充，填充在右边"""

    def __init__(self, weidu=32, tou=4, zuichang=128):
        super().__init__()
        self.tou = tou
        self.qkv = nn.Linear(weidu, weidu * 3)
        self.chu = nn.Linear(weidu, weidu)
        # 上三角为 True，表示不能看
        self.register_buffer("yinguo", torch.ones(zuichang, zuichang, dtype=torch.bool).triu(1))

    def forward(self, x, tianchong=None):
        B, N, D = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.tou, D // self.tou).permute(2, 0, 3, 1, 4)
        fen = q @ k.transpose(-1, -2) / (D // self.tou) ** 0.5
        yanma = self.yinguo[:N, :N]
        if tianchong is not None:
            yanma = tianchong[:, None, None, :]
        fen = fen.masked_fill(yanma, -1e9)
        y = fen.softmax(-1) @ v
        return self.chu(y.transpose(1, 2).reshape(B, N, D))


if __name__ == "__main__":
    t = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool()
    print(YinGuoZhuYiLi()(torch.randn(2, 5, 32), t).shape)
