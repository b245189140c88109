import torch
import torch.nn as nn
import torch.nn.functional as F


class ScaledDotProductAttention(nn.Module):
    """ Scaled Dot-Product Attention, width is taken from the inputs. """

    def __init__(self, attn_dropout=0.1):
        super().__init__()
        self.temperature = None
        self.dropout = nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask=None):
        if self.temperature is None:
            self.temperature = q.size(-1) ** 0.5
        attn = torch.matmul(q / self.temperature, k.transpose(-2, -1))
        if mask is not None:
            attn = attn.masked_fill(mask == 0, -1e9)
        attn = self.dropout(F.softmax(attn, dim=-1))
        return torch.matmul(attn, v), attn


if __name__ == "__main__":
    sdpa = ScaledDotProductAttention().eval()
    narrow = torch.randn(2, 4, 10, 16)
    wide = torch.randn(2, 4, 10, 64)
    # the same module serves both resolutions
    print(sdpa(narrow, narrow, narrow)[0].shape)
    print(sdpa(wide, wide, wide)[0].shape)
