import math
import torch

_scale = {}


def get_scale(t):
    # math.sqrt every step is wasteful, keep the value
    if "value" not in _scale:
        _scale["value"] = 1.0 / math.sqrt(t.shape[-1])
    return _scale["value"]


def dot_attention(query, key, value):
    """(B, Nq, d), (B, Nk, d), (B, Nk, dv) -> (B, Nq, dv)"""
    sim = torch.einsum("bid,bjd->bij", query, key) * get_scale(query)
    sim = sim - sim.amax(dim=-1, keepdim=True).detach()
    attn = sim.softmax(dim=-1)
    return torch.einsum("bij,bjd->bid", attn, value)


# U-Net: attention at 3 resolutions, channel count grows as we go down
for channels in (32, 64, 128):
    feats = torch.randn(1, 16, channels)
    print(channels, dot_attention(feats, feats, feats).shape)
