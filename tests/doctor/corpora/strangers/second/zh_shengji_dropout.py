# 自注意力(使用 PyTorch 2 的融合实现)
import torch
from torch import nn
import torch.nn.functional as F


class 自注意力(nn.Module):
    def __init__(self, 维度=32, 头数=4, 丢弃=0.1, 因果=True):
        super().__init__()
        self.头数, self.丢弃, self.因果 = 头数, 丢弃, 因果
        self.合并投影 = nn.Linear(维度, 3 * 维度)
        self.输出投影 = nn.Linear(维度, 维度)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.合并投影(x).chunk(3, dim=-1)
        q, k, v = (t.view(b, n, self.头数, d // self.头数).transpose(1, 2) for t in (q, k, v))
        # 注意力 + 随机丢弃
        y = F.scaled_dot_product_attention(q, k, v, None, self.丢弃, self.因果)
        return self.输出投影(y.transpose(1, 2).reshape(b, n, d))


if __name__ == "__main__":
    print(自注意力().eval()(torch.randn(2, 6, 32)).shape)
