import torch
from torch import nn


class 多头注意力(nn.Module):
    """多头注意力，掩码中 0 表示需要屏蔽的位置"""

    def __init__(self, 模型维度, 头数):
        super().__init__()
        self.头数 = 头数
        self.每头维度 = 模型维度 // 头数
        self.线性_q = nn.Linear(模型维度, 模型维度)
        self.线性_k = nn.Linear(模型维度, 模型维度)
        self.线性_v = nn.Linear(模型维度, 模型维度)
        self.输出层 = nn.Linear(模型维度, 模型维度)

    def 拆分(self, x):
        b, n, _ = x.shape
        return x.view(b, n, self.头数, self.每头维度).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.拆分(self.线性_q(q)), self.拆分(self.线性_k(k)), self.拆分(self.线性_v(v))
        注意力分数 = q @ k.transpose(-1, -2) / self.每头维度 ** 0.5
        if mask is not None:
            # mask: (批次, 1, 查询长度, 键长度)
            注意力分数.masked_fill(mask == 0, -1e9)
        权重 = torch.softmax(注意力分数, dim=-1)
        结果 = (权重 @ v).transpose(1, 2).flatten(2)
        return self.输出层(结果)


if __name__ == "__main__":
    x = torch.randn(2, 5, 16)
    下三角 = torch.tril(torch.ones(5, 5))[None, None]
    print(多头注意力(16, 4)(x, x, x, 下三角).shape)
