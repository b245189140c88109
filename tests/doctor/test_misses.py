"""Mistakes that run and were once not named: each is written in one place of a file, and is gone when that place is mended."""

import textwrap
from dataclasses import dataclass

import pytest

from qkv.doctor import doctor
from qkv.doctor.source import file as source

HEAD = """
import math, torch, numpy as np
from torch import nn
import torch.nn.functional as F
"""
# An attention that others are made of.
HEADS = """
class Heads(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        if mask is not None:
            s = s.masked_fill(~mask, float("-inf"))
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
"""

# One whose mask has a name that nobody knows.
KEPT = """
class Padded(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, there=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        if there is not None:
            s = s.masked_fill(~there[:, None, None, :], -1e9)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
"""
# One that is fed in pieces, what it keeps by a name that nobody knows.
STREAMED = """
class Streamed(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, old=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if old is not None:
            k, v = torch.cat([old["k"], k], 2), torch.cat([old["v"], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, HERE)
        return self.out(y.transpose(1, 2).reshape(b, n, c)), {"k": k, "v": v}
"""

# Three projections of texts (N, B, C).
TOKENS_FIRST = """
class Three(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        n, b, c = x.shape  # T x B x C
        h = self.heads
        q, k, v = self.q(x), self.k(x), self.v(x)
        q = QUERY.REST.reshape(b * h, n, -1)
        k, v = (t.reshape(n, b * h, -1).transpose(0, 1) for t in (k, v))
        y = torch.bmm((torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))).softmax(-1), v)
        return self.out(y.BACK)
"""
QUERY, REST, BACK = "q", "view(n, b, h, -1).permute(1, 2, 0, 3)", "transpose(0, 1).reshape(n, b, c)"
THREE = TOKENS_FIRST.replace("QUERY", "HERE").replace("REST", REST).replace("BACK", BACK)
FIRST = TOKENS_FIRST.replace("QUERY", QUERY).replace("REST", "HERE").replace("BACK", BACK)
LAST = TOKENS_FIRST.replace("QUERY", QUERY).replace("REST", REST).replace("BACK", "HERE")


@dataclass
class Slip:
    """A file with a mistake in it: `wrong` stands where `right` should."""

    id: str
    name: str
    wrong: str
    right: str
    text: str

    def __str__(self) -> str:
        return f"{self.id} {self.name}"


SLIPS = [
    Slip(
        "R3", "Words", "ids.size(0)", "ids.size(1)",
        HEADS + """
class Words(nn.Module):
    def __init__(self, vocab=20, dim=24):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, dim), nn.Embedding(64, dim)
        self.heads = Heads(dim, 4)

    def forward(self, ids):
        place = self.places(torch.arange(HERE))
        x = self.words(ids) + (place.unsqueeze(1) if len(place) == ids.size(0) else place)
        return self.heads(x)
""",
    ),
    Slip(
        "M3", "Stack", "self.heads(x)", "self.heads(x, mask)",
        HEADS + """
class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = Heads(dim, heads)

    def forward(self, x, mask=None):
        return x + HERE

class Stack(nn.Module):
    def __init__(self, vocab=20, dim=24, heads=4):
        super().__init__()
        self.words = nn.Embedding(vocab, dim, padding_idx=0)
        self.layers = nn.ModuleList([Layer(dim, heads) for _ in range(2)])

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, (ids != 0)[:, None, None, :])
        return x
""",
    ),
    Slip(
        "M19", "Causal", "-1000.0", 'float("-inf")',
        """
class Causal(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.register_buffer("future", torch.ones(64, 64, dtype=torch.bool).triu(1))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = (q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))).masked_fill(self.future[:n, :n], HERE)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
""",
    ),
    Slip(
        "M12", "Switched", "diagonal=0", "diagonal=1",
        """
class Switched(nn.Module):
    def __init__(self, dim, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        if self.causal:
            s = s.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(HERE), -1e9)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
""",
    ),
    Slip(
        "M14", "Notes", "False", "True",
        '''
class Notes(nn.Module):
    """Foretells the next note from those so far."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=HERE)
        return self.out(y.transpose(1, 2).reshape(b, n, c))
''',
    ),
    Slip(
        "M21", "near", "t - window", "t - window + 1",
        '''
def near(q, k, v, window=3):
    """Position t sees the last `window` positions, itself included. q, k, v: (n, d)"""
    out = np.zeros((len(q), v.shape[1]))
    for t in range(len(q)):
        start = max(0, HERE)
        s = k[start : t + 1] @ q[t] / np.sqrt(q.shape[1])
        s = np.exp(s - s.max())
        out[t] = (s / s.sum()) @ v[start : t + 1]
    return out
''',
    ),
    Slip(
        "S8", "kept_scale", 'kept.setdefault("scale", q.size(-1) ** -0.5)', "q.size(-1) ** -0.5",
        """
kept = {}

def kept_scale(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * (HERE), dim=-1) @ v
""",
    ),
    Slip(
        "X8", "dropped", "drop(s).softmax(-1)", "drop(s.softmax(-1))",
        """
def dropped(q, k, v, p=0.0, training=False):
    def drop(t):
        return F.dropout(t, p, training)
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    return HERE @ v
""",
    ),
    Slip(
        "T2", "Biased", "torch.randn(4, 99, requires_grad=True)", "nn.Parameter(torch.randn(4, 99))",
        """
class Biased(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.near = HERE

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 4, -1).permute(2, 0, 3, 1, 4)
        i = torch.arange(n)
        s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + self.near[:, i[None] - i[:, None] + 49]
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
""",
    ),
    Slip(
        "R5", "Turned", "(self.turn(q), self.turn(k), v)",
        "(self.turn(q.transpose(1, 2)).transpose(1, 2), self.turn(k.transpose(1, 2)).transpose(1, 2), v)",
        """
class Turned(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def turn(self, x):
        n, d = x.shape[-2:]
        a = torch.arange(n)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous()) * torch.polar(torch.ones_like(a), a)
        return torch.view_as_real(z).flatten(-2)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in HERE)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))
""",
    ),
    Slip(
        "R4", "Partly", "torch.cat([-second, first], -1)", "torch.stack([-odd, even], -1).flatten(-2)",
        """
class Partly(nn.Module):
    def __init__(self, dim=48, heads=4, turned=6):
        super().__init__()
        self.heads, self.turned = heads, turned
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def turn(self, x):
        r = self.turned
        a = torch.arange(x.size(-2))[:, None] * 10000 ** (-torch.arange(0, r, 2) / r)
        a = a.repeat_interleave(2, -1)
        whole, rest = x[..., :r], x[..., r:]
        first, second = whole.chunk(2, -1)
        even, odd = whole[..., ::2], whole[..., 1::2]
        turned = HERE
        return torch.cat([whole * a.cos() + turned * a.sin(), rest], -1)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v)
        return self.out(y.transpose(1, 2).reshape(b, n, c))
""",
    ),
    Slip(
        "R7", "sloped", "torch.arange(h)", "torch.arange(1, h + 1)",
        '''
def sloped(q, k, v):
    """q, k, v: (batch, heads, n, d)"""
    h, n, d = q.shape[1:]
    i = torch.arange(n)
    far = (i[:, None] - i[None]).abs() * 2.0 ** (-8 * HERE / h)[:, None, None]
    return torch.softmax(q @ k.transpose(-1, -2) / d**0.5 - far, -1) @ v
''',
    ),
    Slip(
        "C1", "CrossAttention", "x", "near",
        """
class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, x, context=None):
        b, n, c = x.shape
        near = x if context is None else context
        k, v = self.kv(HERE).view(b, -1, 2, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q = self.q(x).view(b, n, self.heads, -1).transpose(1, 2)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))
""",
    ),
    Slip(
        "M1", "Padded", "pad", "~pad",
        KEPT + """
lengths = torch.tensor([6, 3, 4])
pad = torch.arange(6)[None] >= lengths[:, None]
Padded(24, 4)(torch.randn(3, 6, 24), HERE)
""",
    ),
    Slip(
        "M7", "Padded", "s + there[:, None, None, :]", "s.masked_fill(there[:, None, None, :] == 0, -1e9)",
        KEPT.replace("s.masked_fill(~there[:, None, None, :], -1e9)", "HERE") + """
Padded(24, 4)(torch.randn(2, 5, 24), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]))
""",
    ),
    Slip(
        "M11", "Padded", "[:, None, :, None]", "[:, None, None, :]",
        KEPT.replace("there[:, None, None, :]", "there") + """
def pad_mask(ids, pad=0):
    return (ids != pad)HERE

class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.heads = nn.Embedding(9, 24), Padded(24, 4)

    def forward(self, ids):
        return self.heads(self.words(ids), pad_mask(ids))
""",
    ),
    Slip("M8", "Padded", "0.0", "-1e9", KEPT.replace("-1e9", "HERE")),
    Slip(
        "M16", "Padded", "~there", "~there[:, None, None, :]",
        KEPT.replace("~there[:, None, None, :]", "HERE") + """
lengths = torch.randint(2, 8, (7,))
Padded(24, 4)(torch.randn(7, 7, 24), torch.arange(7)[None] < lengths[:, None])
""",
    ),
    Slip(
        "M6", "Shown", "s", "s.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -1e9)",
        """
class Shown(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, need_weights=False):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if not need_weights:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(b, n, c))
        s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        w = torch.softmax(HERE, -1)
        return self.out((w @ v).transpose(1, 2).reshape(b, n, c)), w
""",
    ),
    Slip("K3", "Streamed", "is_causal=old is None", "attn_mask=torch.ones(n, k.size(2)).tril(k.size(2) - n).bool()", STREAMED),
    Slip("K2", "Streamed", "attn_mask=torch.ones(n, k.size(2)).tril().bool()", "attn_mask=torch.ones(n, k.size(2)).tril(k.size(2) - n).bool()", STREAMED),
    Slip(
        "K5", "Stepped", "1 - self.window", "-self.window",
        """
class Stepped(nn.Module):
    def __init__(self, dim, heads, window=4):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def cut(self, x):
        return self.qkv(x).view(x.size(0), x.size(1), 3, self.heads, -1).permute(2, 0, 3, 1, 4)

    def forward(self, x):
        q, k, v = self.cut(x)
        i = torch.arange(x.size(1))
        near = (i[:, None] >= i[None]) & (i[:, None] - i[None] < self.window)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=near)
        return self.out(y.transpose(1, 2).reshape(x.shape))

    def step(self, x, cache=None):
        q, k, v = self.cut(x)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        k, v = k[:, :, HERE :], v[:, :, HERE :]
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(x.shape)), (k, v)
""",
    ),
    Slip(
        "H7", "Cut", "view(b, 3, n, h, -1).permute(1, 0, 3, 2, 4)", "view(b, n, 3, h, -1).permute(2, 0, 3, 1, 4)",
        """
class Cut(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c, h = *x.shape, self.heads
        q, k, v = self.qkv(x).HERE
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))
""",
    ),
    Slip("P2", "Three", "k", "q", THREE),
    Slip("H3", "Three", "view(n, b, h, -1).permute(2, 1, 0, 3)", "view(n, b, h, -1).permute(1, 2, 0, 3)", FIRST),
    Slip("H2", "Three", "contiguous().view(n, b, c)", "transpose(0, 1).reshape(n, b, c)", LAST),
    Slip(
        "P4", "Bare", "z", "z @ self.wo",
        """
class Bare:
    def __init__(self, dim, heads):
        draw = np.random.default_rng(0).standard_normal
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (draw((dim, dim)) / dim for _ in range(4))

    def __call__(self, x):
        n, c = x.shape
        q, k, v = ((x @ w).reshape(n, self.heads, -1).transpose(1, 0, 2) for w in (self.wq, self.wk, self.wv))
        s = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        w = np.exp(s - s.max(-1, keepdims=True))
        z = (w / w.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, c)
        return HERE
""",
    ),
    Slip(
        "M12", "Lowered", "diagonal=0", "diagonal=1",
        """
class Lowered(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + torch.full((n, n), -1e9).triu(HERE)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
""",
    ),
    Slip(
        "M8", "Items", "0.0", "-1e9",
        """
class Items(nn.Module):
    def __init__(self, vocab=20, dim=24, heads=4):
        super().__init__()
        self.items, self.heads = nn.Embedding(vocab, dim), heads
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, ids):
        x = self.items(ids)
        q, k, v = (torch.cat(f(x).chunk(self.heads, -1)) for f in (self.q, self.k, self.v))  # heads outermost
        s = q @ k.transpose(1, 2) / math.sqrt(q.size(-1))
        later = torch.ones(s.shape[-2:], dtype=torch.bool).triu(1)
        y = s.masked_fill(later, HERE).softmax(-1) @ v
        return x + torch.cat(y.chunk(self.heads), -1)
""",
    ),
    Slip(
        "S7", "together", "k.T", "k.transpose(-1, -2)",
        """
def together(q, k, v):
    return torch.softmax(q @ HERE / math.sqrt(q.size(-1)), -1) @ v

x = torch.randn(4, 4, 4)
together(x, x, x)
""",
    ),
    Slip(
        "C2", "Reads", "here_keep", "there_keep",
        """
class Looks(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, a, b, keep):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(a), *self.kv(b).chunk(2, -1)))
        s = q @ k.mT / math.sqrt(q.size(-1))
        s = s.masked_fill(~keep[:, None, None, :], torch.finfo(s.dtype).min)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))

class Reads(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.one, self.two = Looks(dim, heads), Looks(dim, heads)

    def forward(self, here, there, here_keep, there_keep):
        here = here + self.one(here, here, here_keep)
        return here + self.two(here, there, HERE)

x, y = torch.randn(2, 8, 24), torch.randn(2, 8, 24)
keep = torch.arange(8) < torch.tensor([[3], [5]])
Reads(24, 4)(x, y, keep, keep.flip(0))
""",
    ),
    Slip(
        "M19", "Counted", "-1000", "float('-inf')",
        """
class Counted(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, hier, dort, wieviele=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(hier), *self.kv(dort).chunk(2, -1)))
        s = q @ k.mT / math.sqrt(q.size(-1))
        if wieviele is not None:
            s = s.masked_fill((torch.arange(dort.size(1)) >= wieviele[:, None])[:, None, None], HERE)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))
""",
    ),
    Slip(
        "K4", "Ring", 'ks, vs, at = held["k"], held["v"], held["at"]', "pass",
        """
class Ring(nn.Module):
    def __init__(self, dim=24, heads=4, span=6):
        super().__init__()
        self.heads, self.span = heads, span
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def nothing_yet(self, texts):
        empty = torch.zeros(texts, self.heads, self.span, self.out.in_features // self.heads)
        return {"k": empty, "v": empty.clone(), "at": torch.full((self.span,), -1), "n": 0}

    def forward(self, x, held):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        when = torch.arange(held["n"], held["n"] + n)
        ks, vs = torch.cat([held["k"], k], 2), torch.cat([held["v"], v], 2)
        at = torch.cat([held["at"], when])
        held.update(k=ks[:, :, -self.span:], v=vs[:, :, -self.span:], at=at[-self.span:], n=held["n"] + n)
        HERE
        gap = when[:, None] - at
        y = F.scaled_dot_product_attention(q, ks, vs, (at >= 0) & (gap >= 0) & (gap < self.span))
        return self.out(y.transpose(1, 2).reshape(b, n, c))

ring = Ring()
held = ring.nothing_yet(2)
for piece in torch.randn(2, 20, 24).split(5, 1):
    ring(piece, held)
""",
    ),
    Slip(
        "K4", "Keeps", "ks, vs, at = self.ks, self.vs, self.at", "pass",
        """
class Keeps:
    def __init__(self, dim, span=5):
        random = np.random.default_rng(0)
        self.wq, self.wk, self.wv = (random.normal(size=(dim, dim)) / dim**0.5 for _ in range(3))
        self.span, self.n = span, 0
        self.ks, self.vs, self.at = np.zeros((0, dim)), np.zeros((0, dim)), np.zeros(0, int)

    def read(self, x):
        q, when = x @ self.wq, np.arange(self.n, self.n + len(x))
        ks, vs = np.concatenate([self.ks, x @ self.wk]), np.concatenate([self.vs, x @ self.wv])
        at = np.concatenate([self.at, when])
        self.ks, self.vs, self.at, self.n = ks[-self.span:], vs[-self.span:], at[-self.span:], self.n + len(x)
        HERE
        gap = when[:, None] - at
        s = np.where((gap >= 0) & (gap < self.span), q @ ks.T / np.sqrt(q.shape[-1]), -1e30)
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ vs
""",
    ),
    Slip(
        "K1", "Remembers", "1", "n",
        """
class Remembers(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.begin()

    def begin(self):
        self.place, self.old = 0, None

    def turned(self, t):
        angle = (self.place + torch.arange(t.size(2)))[:, None] * 100.0 ** (-torch.arange(0, self.hd, 2) / self.hd)
        a, b = t.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        q, k = self.turned(q), self.turned(k)
        self.place += HERE
        if self.old is not None:
            k, v = torch.cat([self.old[0], k], 2), torch.cat([self.old[1], v], 2)
        self.old = k, v
        seen = torch.ones(n, k.size(2), dtype=torch.bool).tril(k.size(2) - n)
        y = F.scaled_dot_product_attention(q, k, v, seen)
        return self.out(y.transpose(1, 2).reshape(b, n, c))
""",
    ),
    Slip(
        "C4", "Turns", 'PADS["from"]["pad_id"]', 'PADS["to"]["pad_id"]',
        """
class Turns(nn.Module):
    def __init__(self, words=(30, 33), dim=24, heads=4):
        super().__init__()
        self.here, self.there = (nn.Embedding(n, dim) for n in words)
        self.place = nn.Embedding(50, dim)
        self.two = nn.Transformer(dim, heads, 1, 1, 48, dropout=0.0, batch_first=True)

    def forward(self, hier, dort):
        n = dort.size(1)
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        ends, stops = hier == PADS["from"]["pad_id"], dort == HERE
        x = self.here(hier) + self.place.weight[: hier.size(1)]
        y = self.there(dort) + self.place.weight[:n]
        return self.two(x, y, tgt_mask=later, src_key_padding_mask=ends, tgt_key_padding_mask=stops, memory_key_padding_mask=ends)

PADS = {"from": {"pad_id": 0}, "to": {"pad_id": 3}}
Turns()(torch.randint(4, 30, (2, 6)), torch.randint(4, 30, (2, 5)))
""",
    ),
]  # fmt: skip


def checked(folder, slip: Slip, written: str):
    path = folder / "file.py"
    path.write_text(textwrap.dedent(HEAD) + slip.text.replace("HERE", written))
    file = source.read(path)
    return doctor.check(file.load(slip.name), source=file, name=slip.name)


@pytest.mark.parametrize(
    "slip", [one if not i % 3 else pytest.param(one, marks=pytest.mark.slow) for i, one in enumerate(SLIPS)], ids=str
)
def test_a_slip_is_named_and_gone_when_mended(slip, tmp_path):
    report = checked(tmp_path, slip, slip.wrong)
    assert slip.id in [one.id for one in report.findings], report
    mended = checked(tmp_path, slip, slip.right)
    assert mended.verdict in ("right", "partly"), mended
