import torch
from torch import nn


def create_sinusoidal_positions(num_pos: int, dim: int):
    inv_freq = 1.0 / (10000 ** (torch.arange(0, dim, 2) / dim))
    sinusoid_inp = torch.einsum("i,j->ij", torch.arange(num_pos).float(), inv_freq).float()
    return torch.cat((torch.sin(sinusoid_inp), torch.cos(sinusoid_inp)), dim=1)


def rotate_every_two(x):
    x1 = x[:, :, :, ::2]
    x2 = x[:, :, :, 1::2]
    x = torch.stack((-x2, x1), dim=-1)
    return x.flatten(-2)  # in einsum notation: rearrange(x, '... d j -> ... (d j)')


def apply_rotary_pos_emb(tensor, sin, cos):
    sin = torch.repeat_interleave(sin[None, :, None, :], 2, 3)
    cos = torch.repeat_interleave(cos[None, :, None, :], 2, 3)
    return (tensor * cos) + (rotate_every_two(tensor) * sin)


class GPTJAttention(nn.Module):
    def __init__(self, embed_dim=60, num_heads=5, rotary_dim=8, max_positions=64):
        super().__init__()
        self.register_buffer("bias", torch.tril(torch.ones((max_positions, max_positions), dtype=torch.bool))
                             .view(1, 1, max_positions, max_positions), persistent=False)
        self.num_heads, self.head_dim, self.rotary_dim = num_heads, embed_dim // num_heads, rotary_dim
        self.scale_attn = self.head_dim ** 0.5
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.register_buffer("embed_positions", create_sinusoidal_positions(max_positions, rotary_dim))

    def forward(self, x, layer_past=None):
        b, n, _ = x.shape
        q, k, v = (p(x).view(b, n, self.num_heads, self.head_dim) for p in (self.q_proj, self.k_proj, self.v_proj))
        past = 0 if layer_past is None else layer_past[0].size(-2)
        sin, cos = self.embed_positions[past:past + n].chunk(2, dim=-1)
        rd = self.rotary_dim
        q = torch.cat([apply_rotary_pos_emb(q[..., :rd], sin, cos), q[..., rd:]], dim=-1).transpose(1, 2)
        k = torch.cat([apply_rotary_pos_emb(k[..., :rd], sin, cos), k[..., rd:]], dim=-1).transpose(1, 2)
        v = v.transpose(1, 2)
        if layer_past is not None:
            k = torch.cat((layer_past[0], k), dim=-2)
            v = torch.cat((layer_past[1], v), dim=-2)
        present = (k, v)
        ql, kl = q.size(-2), k.size(-2)
        causal_mask = self.bias[:, :, kl - ql:kl, :kl]
        w = torch.matmul(q.float(), k.float().transpose(-1, -2))
        w = torch.where(causal_mask, w, torch.finfo(w.dtype).min)
        w = nn.functional.softmax(w / self.scale_attn, dim=-1).to(v.dtype)
        out = torch.matmul(w, v).permute(0, 2, 1, 3).reshape(b, n, -1)
        return self.out_proj(out), present
