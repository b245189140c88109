import torch
import torch.nn.functional as F
from torch import nn


class IncrementalAttention(nn.Module):
    """Decoder self-attention, T x B x C, with incremental decoding."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim ** -0.5
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.register_buffer("future", torch.full((256, 256), float("-inf")).triu(1), persistent=False)

    def forward(self, x, incremental_state=None):
        tgt_len, bsz, embed_dim = x.size()
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q = (q * self.scaling).reshape(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.reshape(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.reshape(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        attn_mask = self.future[:tgt_len, :tgt_len]
        if incremental_state is not None:
            if "prev_key" in incremental_state:
                k = torch.cat([incremental_state["prev_key"], k], dim=1)
                v = torch.cat([incremental_state["prev_value"], v], dim=1)
                # everything in the cache is in the past
                attn_mask = x.new_zeros(tgt_len, k.size(1))
            incremental_state["prev_key"], incremental_state["prev_value"] = k, v
        weights = F.softmax(torch.bmm(q, k.transpose(1, 2)) + attn_mask, dim=-1)
        attn = torch.bmm(weights, v).transpose(0, 1).reshape(tgt_len, bsz, embed_dim)
        return self.out_proj(attn)


if __name__ == "__main__":
    layer, state = IncrementalAttention(32, 4), {}
    print(layer(torch.randn(5, 2, 32), state).shape, layer(torch.randn(2, 2, 32), state).shape)
