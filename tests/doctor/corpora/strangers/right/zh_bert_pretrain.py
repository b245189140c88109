# 简化版 BERT 编码层，注释为中文
import math
import torch
from torch import nn


def kuozhan_yanma(attention_mask, dtype=torch.float32):
    """1 表示真实词，0 表示填充 -> (批, 1, 1, 长度) 的加性掩码"""
    yanma = attention_mask[:, None, None, :].to(dtype)
    return (1.0 - yanma) * torch.finfo(dtype).min


class BertZhuYiLi(nn.Module):
    def __init__(self, yincang=48, toushu=6, diuqi=0.1):
        super().__init__()
        self.toushu = toushu
        self.touwei = yincang // toushu
        self.query = nn.Linear(yincang, yincang)
        self.key = nn.Linear(yincang, yincang)
        self.value = nn.Linear(yincang, yincang)
        self.dense = nn.Linear(yincang, yincang)
        self.diuqi = nn.Dropout(diuqi)

    def fentou(self, x):                      # 分头
        b, n, _ = x.shape
        return x.view(b, n, self.toushu, self.touwei).permute(0, 2, 1, 3)

    def forward(self, x, yanma=None):
        q, k, v = self.fentou(self.query(x)), self.fentou(self.key(x)), self.fentou(self.value(x))
        fenshu = q @ k.transpose(-1, -2) / math.sqrt(self.touwei)
        if yanma is not None:
            fenshu = fenshu + yanma            # 加性掩码
        gailv = self.diuqi(fenshu.softmax(dim=-1))
        hebing = (gailv @ v).permute(0, 2, 1, 3).flatten(2)   # 合并多头
        return self.dense(hebing)


class BertCeng(nn.Module):
    def __init__(self, yincang=48, toushu=6):
        super().__init__()
        self.zhuyili = BertZhuYiLi(yincang, toushu)
        self.guiyi1, self.guiyi2 = nn.LayerNorm(yincang), nn.LayerNorm(yincang)
        self.qiankui = nn.Sequential(nn.Linear(yincang, 4 * yincang), nn.GELU(), nn.Linear(4 * yincang, yincang))

    def forward(self, x, attention_mask):
        x = self.guiyi1(x + self.zhuyili(x, kuozhan_yanma(attention_mask, x.dtype)))
        return self.guiyi2(x + self.qiankui(x))


if __name__ == '__main__':
    print(BertCeng()(torch.randn(2, 7, 48), torch.ones(2, 7)).shape)
