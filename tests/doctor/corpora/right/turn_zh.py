import torch


def 旋转(x, 起点=0):
    """x: (批量, 头数, 长度, 维度)，相邻两维一起转"""
    n, d = x.shape[-2:]
    频率 = 10000.0 ** (-torch.arange(0, d, 2).double() / d)
    角度 = torch.outer(torch.arange(起点, 起点 + n).double(), 频率)
    余弦, 正弦 = (f(角度).repeat_interleave(2, -1) for f in (torch.cos, torch.sin))
    另一半 = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).reshape(x.shape)
    return x * 余弦 + 另一半 * 正弦
