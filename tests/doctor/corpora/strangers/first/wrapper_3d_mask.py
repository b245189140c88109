import torch
import torch.nn as nn


class MaskedMHA(nn.Module):
    """nn.MultiheadAttention with a separate mask for every sample.

    visible: (B, Tq, Tk) bool, True = the query may look at the key
    """

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.mha = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)

    def forward(self, query, key, value, visible=None):
        attn_mask = None
        if visible is not None:
            # torch wants (B * num_heads, Tq, Tk) with True = blocked
            attn_mask = (~visible).repeat(self.num_heads, 1, 1)
        out, _ = self.mha(query, key, value, attn_mask=attn_mask, need_weights=False)
        return out


if __name__ == "__main__":
    lens = torch.tensor([6, 2, 4])
    visible = (torch.arange(6)[None, :] < lens[:, None])[:, None, :].expand(3, 6, 6)
    x = torch.randn(3, 6, 32)
    print(MaskedMHA(32, 4)(x, x, x, visible).shape)
