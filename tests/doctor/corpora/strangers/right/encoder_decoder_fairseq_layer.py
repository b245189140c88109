import torch
import torch.nn.functional as F
from torch import nn


class Attn(nn.Module):
    def __init__(self, dim, heads, name):
        super().__init__()
        self.heads, self.name, self.scaling = heads, name, (dim // heads) ** -0.5
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, query, key, key_padding_mask=None, attn_mask=None, incremental_state=None, static_kv=False):
        T, B, C = query.shape
        st = None if incremental_state is None else incremental_state.setdefault(self.name, {})
        heads = lambda t: t.view(-1, B * self.heads, C // self.heads).transpose(0, 1)
        q = heads(self.q_proj(query) * self.scaling)
        if static_kv and st:
            k, v = st["k"], st["v"]
        else:
            k, v = heads(self.k_proj(key)), heads(self.v_proj(key))
            if st:
                k, v = torch.cat([st["k"], k], 1), torch.cat([st["v"], v], 1)
        if st is not None:
            st["k"], st["v"] = k, v
        w = torch.bmm(q, k.transpose(1, 2))
        if attn_mask is not None:
            w = w + attn_mask.unsqueeze(0)
        if key_padding_mask is not None:                      # (B, S), True = pad
            w = w.view(B, self.heads, T, -1).masked_fill(key_padding_mask[:, None, None], float("-inf")).flatten(0, 1)
        a = torch.bmm(F.softmax(w, dim=-1), v)
        return self.out_proj(a.transpose(0, 1).reshape(T, B, C))


class TransformerDecoderLayer(nn.Module):
    def __init__(self, dim=32, heads=4, normalize_before=True):
        super().__init__()
        self.normalize_before = normalize_before
        self.self_attn, self.encoder_attn = Attn(dim, heads, "self"), Attn(dim, heads, "enc")
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.ln1, self.ln2, self.ln3 = (nn.LayerNorm(dim) for _ in range(3))

    def sub(self, x, ln, f):
        return x + f(ln(x)) if self.normalize_before else ln(x + f(x))

    def forward(self, x, encoder_out, encoder_padding_mask=None, incremental_state=None):
        T = x.size(0)
        seen = (incremental_state or {}).get("self", {})
        past = seen["k"].size(1) if seen else 0               # keys cached by earlier steps
        mask = torch.triu(x.new_full((T, past + T), float("-inf")), 1 + past)
        x = self.sub(x, self.ln1, lambda y: self.self_attn(y, y, None, mask, incremental_state))
        x = self.sub(x, self.ln2, lambda y: self.encoder_attn(y, encoder_out, encoder_padding_mask, None,
                                                              incremental_state, static_kv=True))
        return self.sub(x, self.ln3, lambda y: self.fc2(F.relu(self.fc1(y))))
