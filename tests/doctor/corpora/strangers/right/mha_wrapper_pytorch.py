import torch
import torch.nn as nn


class CausalMHA(nn.Module):
    def __init__(self, dim, heads, max_len=128, p=0.1):
        super().__init__()
        self.mha = nn.MultiheadAttention(dim, heads, dropout=p, batch_first=True)
        # in nn.MultiheadAttention a True in a bool mask means "not allowed"
        self.register_buffer("block", torch.triu(torch.ones(max_len, max_len, dtype=torch.bool), diagonal=1))

    def forward(self, x, lengths=None):
        n = x.size(1)
        pad = None
        if lengths is not None:
            pad = torch.arange(n, device=x.device)[None, :] >= lengths[:, None]
        y, _ = self.mha(x, x, x, attn_mask=self.block[:n, :n], key_padding_mask=pad, need_weights=False)
        return y


class CrossBlock(nn.Module):
    def __init__(self, dim, ctx_dim, heads):
        super().__init__()
        self.norm_q = nn.LayerNorm(dim)
        self.norm_kv = nn.LayerNorm(ctx_dim)
        self.attn = nn.MultiheadAttention(dim, heads, kdim=ctx_dim, vdim=ctx_dim, batch_first=True)

    def forward(self, x, context, context_pad=None):
        c = self.norm_kv(context)
        y, w = self.attn(self.norm_q(x), c, c, key_padding_mask=context_pad)
        return x + y, w


if __name__ == "__main__":
    m = CausalMHA(32, 4).eval()
    print(m(torch.randn(2, 6, 32), torch.tensor([6, 4])).shape)
    print(CrossBlock(32, 20, 4)(torch.randn(2, 6, 32), torch.randn(2, 9, 20))[0].shape)
