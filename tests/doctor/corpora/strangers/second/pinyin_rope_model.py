# 小语言模型: 词嵌入 + 旋转位置 + 因果注意力
import torch
from torch import nn
import torch.nn.functional as F

peizhi = {"cibiao": 120, "weidu": 48, "tou": 4, "changdu": 64}


class YuYanMoXing(nn.Module):
    def __init__(self, p=peizhi):
        super().__init__()
        w = p["weidu"]
        self.tou = p["tou"]
        self.qianru = nn.Embedding(p["cibiao"], w)
        self.guiyi = nn.LayerNorm(w)
        self.chaxun, self.jian, self.zhi, self.hebing = (nn.Linear(w, w, bias=False) for _ in range(4))
        self.shuchu = nn.Linear(w, p["cibiao"])
        pinlv = 10000 ** (-torch.arange(0, w, 2).float() / w)
        jiao = torch.arange(p["changdu"]).float()[:, None] * pinlv
        self.register_buffer("cos", jiao.cos(), persistent=False)
        self.register_buffer("sin", jiao.sin(), persistent=False)

    def xuanzhuan(self, x):
        n = x.shape[-2]
        a, b = x[..., 0::2], x[..., 1::2]
        c, s = self.cos[:n], self.sin[:n]
        return torch.stack((a * c - b * s, a * s + b * c), dim=-1).flatten(-2)

    def fentou(self, x):
        return x.unflatten(-1, (self.tou, -1)).transpose(1, 2)

    def forward(self, ci):
        x = self.qianru(ci)
        y = self.guiyi(x)
        q, k, v = self.xuanzhuan(self.chaxun(y)), self.xuanzhuan(self.jian(y)), self.zhi(y)
        q, k, v = self.fentou(q), self.fentou(k), self.fentou(v)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.hebing(z.transpose(1, 2).flatten(2))
        return self.shuchu(x)


if __name__ == "__main__":
    print(YuYanMoXing()(torch.randint(0, 120, (2, 11))).shape)
