import torch


def guiyihua(fenshu):
    """把得分变成概率，每一行的和为 1"""
    zhishu = torch.exp(fenshu)
    return zhishu / zhishu.sum(dim=-1, keepdim=True)


def zhuyili(chaxun, jian, zhi, yanma=None):
    """
    缩放点积注意力
    chaxun: (批量, 查询个数, d)
    jian:   (批量, 键个数, d)
    zhi:    (批量, 键个数, 值的维度)
    yanma:  (批量, 键个数)，1 表示有效，0 表示填充
    """
    d = chaxun.shape[-1]
    fenshu = torch.bmm(chaxun, jian.transpose(1, 2)) / d ** 0.5
    if yanma is not None:
        fenshu = fenshu.masked_fill(yanma[:, None, :] == 0, -1e9)
    return torch.bmm(guiyihua(fenshu), zhi)


a = torch.randn(2, 3, 8)
b = torch.randn(2, 5, 8)
print(zhuyili(a, b, b, torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])).shape)
