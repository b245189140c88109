"""A mistake's line is found in code of any style, and its patch is Python in the code's own names."""

import ast
import random
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from qkv.doctor.doctor import check
from qkv.doctor.mistakes import CATALOGUE
from qkv.doctor.places import locate
from qkv.doctor.source.file import parse, read
from qkv.doctor.source.says import says
from qkv.doctor.source.trees import Code
from tests.doctor.cases_faulty import FAULTY

REMARKS = ("E1", "M18")

# id, name, code with the guilty line marked #!, and a part of the patched line ("" = a patch isn't asked for)
SNIPPETS = [
    (
        "S1",
        "Head",
        """
        class Head(nn.Module):
            def __init__(self, dim, head_dim):
                self.scale = head_dim ** -0.5
                self.q = nn.Linear(dim, head_dim)
            def forward(self, x):
                q, k, v = self.q(x), self.k(x), self.v(x)
                scores = q @ k.transpose(-2, -1) / self.scale  #!
                return scores.softmax(-1) @ v
        """,
        "scores = q @ k.transpose(-2, -1) * self.scale",
    ),
    (
        "S1",
        "attention",
        """
        def attention(query, key, value):
            d_k = query.size(-1)
            scores = torch.matmul(query, key.transpose(-2, -1)) * math.sqrt(d_k)  #!
            return torch.matmul(F.softmax(scores, dim=-1), value)
        """,
        "scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)",
    ),
    (
        "S1",
        "f",
        """
        def f(q, k, v):
            s = np.einsum("bqd,bkd->bqk", q, k)
            s /= q.shape[-1] ** -0.5  #!
            w = np.exp(s - s.max(-1, keepdims=True))
            return (w / w.sum(-1, keepdims=True)) @ v
        """,
        "s *= q.shape[-1] ** -0.5",
    ),
    (
        "S1",
        "attend",
        """
        def attend(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, scale=q.size(-1) ** 0.5)  #!
        """,
        "scale=1 / (q.size(-1) ** 0.5)",
    ),
    (
        "S1",
        "Model",  # the embedding's √width is right
        """
        class Model(nn.Module):
            def forward(self, x, d_model):
                x = self.embedding(x) * math.sqrt(d_model)
                return self.att(x)
            def att(self, x):
                root = math.sqrt(self.d_k)
                scores = torch.bmm(x, x.transpose(1, 2))
                scores = root * scores  #!
                return torch.bmm(torch.softmax(scores, 2), x)
        """,
        "scores = scores / root",
    ),
    (
        "S2",
        "MHA",
        """
        class MHA(nn.Module):
            def __init__(self, d_model, h):
                self.scale = (d_model // h) ** -0.5
            def forward(self, q, k, v):
                energy = torch.einsum("nqhd,nkhd->nhqk", [q, k])  #!
                attention = torch.softmax(energy, dim=3)
                return torch.einsum("nhql,nlhd->nqhd", [attention, v])
        """,
        'energy = torch.einsum("nqhd,nkhd->nhqk", [q, k]) * self.scale',
    ),
    (
        "S2",
        "attn",
        """
        def attn(Q, K, V, mask=None):
            scores = Q @ K.swapaxes(-1, -2)  #!
            if mask is not None:
                scores = np.where(mask, scores, -1e9)
            return softmax(scores) @ V
        def softmax(x, axis=-1):
            e = np.exp(x - x.max(axis=axis, keepdims=True))
            return e / e.sum(axis=axis, keepdims=True)
        """,
        "scores = Q @ K.swapaxes(-1, -2) / Q.shape[-1] ** 0.5",
    ),
    (
        "S2",
        "a",
        """
        def a(q, k, v, m):
            return torch.matmul(q, k.mT).masked_fill(m == 0, -1e9).softmax(-1) @ v  #!
        """,
        "return (torch.matmul(q, k.mT) / q.shape[-1] ** 0.5).masked_fill(m == 0, -1e9)",
    ),
    (
        "S3",
        "SelfAttention",
        """
        class SelfAttention(nn.Module):
            def __init__(self, embed_size, heads):
                self.embed_size = embed_size
                self.heads = heads
                self.head_dim = embed_size // heads
            def forward(self, values, keys, query, mask):
                energy = torch.einsum("nqhd,nkhd->nhqk", [query, keys])
                attention = torch.softmax(energy / (self.embed_size ** (1/2)), dim=3)  #!
                return attention
        """,
        "torch.softmax(energy / (self.head_dim ** (1/2)), dim=3)",
    ),
    (
        "S3",
        "Head",
        """
        class Head(nn.Module):
            def forward(self, x):
                B, T, C = x.shape
                k = self.key(x)
                q = self.query(x)
                wei = q @ k.transpose(-2, -1) * C ** -0.5  #!
                wei = F.softmax(wei, dim=-1)
                return wei @ self.value(x)
        """,
        "wei = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5",
    ),
    (
        "S3",
        "M",
        """
        class M:
            def __init__(self, d_model, num_heads):
                self.d_k = d_model // num_heads
                self.scale = torch.sqrt(torch.FloatTensor([d_model]))  #!
            def forward(self, q, k, v):
                return torch.softmax(torch.matmul(q, k.permute(0, 1, 3, 2)) / self.scale, dim=-1) @ v
        """,
        "self.scale = torch.sqrt(torch.FloatTensor([self.d_k]))",
    ),
    (
        "S4",
        "sdpa",
        """
        def sdpa(q, k, v):
            scores = q @ k.transpose(-2, -1)
            weights = torch.softmax(scores / math.sqrt(k.shape[-2]), dim=-1)  #!
            return weights @ v
        """,
        "weights = torch.softmax(scores / math.sqrt(q.shape[-1]), dim=-1)",
    ),
    (
        "S4",
        "A",
        """
        class A(nn.Module):
            def forward(self, x):
                dots = self.q(x) @ self.k(x).mT / np.sqrt(self.num_heads)  #!
                return dots.softmax(dim=-1) @ self.v(x)
        """,
        "",
    ),
    (
        "S6",
        "f",
        """
        def f(q, k, v):
            d_k = q.size(-1)
            attn = F.softmax(q @ k.mT, dim=-1) / math.sqrt(d_k)  #!
            return attn @ v
        """,
        "attn = F.softmax(q @ k.mT / math.sqrt(d_k), dim=-1)",
    ),
    (
        "S6",
        "f",
        """
        def f(self, q, k, v):
            scores = q @ k.mT
            w = scores.softmax(-1)
            return (w / self.scale) @ v  #!
        """,
        "",
    ),
    (
        "S7",
        "f",
        """
        def f(q, k, v):
            scores = torch.softmax(q @ k.T / 4, -1)  #!
            return scores @ v
        """,
        "scores = torch.softmax(q @ k.transpose(-2, -1) / 4, -1)",
    ),
    (
        "S7",
        "f",
        """
        import numpy as np
        def f(q, k, v):
            scores = np.dot(q, np.transpose(k))  #!
            return softmax(scores) @ v
        """,
        "scores = np.dot(q, k.swapaxes(-2, -1))",
    ),
    (
        "S8",
        "A",
        """
        class A:
            def forward(self, q, k, v):
                if self.temperature is None:  #!
                    self.temperature = q.shape[-1] ** 0.5
                return torch.softmax(q @ k.mT / self.temperature, -1) @ v
        """,
        "",
    ),
    (
        "X1",
        "A",
        """
        class A(nn.Module):
            def __init__(self):
                self.softmax = nn.Softmax(dim=-2)  #!
            def forward(self, q, k, v):
                return self.softmax(q @ k.transpose(1, 2)) @ v
        """,
        "self.softmax = nn.Softmax(dim=-1)",
    ),
    (
        "X1",
        "f",
        """
        def softmax(x, axis=0):  #!
            e = np.exp(x - x.max(axis=axis, keepdims=True))
            return e / e.sum(axis=axis, keepdims=True)
        def f(q, k, v):
            return softmax(q @ k.T / 2) @ v
        """,
        "def softmax(x, axis=-1):",
    ),
    ("X1", "f", "def f(q, k, v):\n    return (q @ k.mT).softmax(1) @ v  #!\n", "(q @ k.mT).softmax(-1)"),
    (
        "X2",
        "f",
        """
        def f(q, k, v):
            scores = torch.bmm(q, k.transpose(1, 2))
            return torch.bmm(nn.Softmax()(scores), v)  #!
        """,
        "torch.bmm(nn.Softmax(dim=-1)(scores), v)",
    ),
    (
        "X2",
        "f",
        "def f(q, k, v):\n    w = F.softmax(q @ k.mT, dim=0)  #!\n    return w @ v\n",
        "w = F.softmax(q @ k.mT, dim=-1)",
    ),
    (
        "X3",
        "f",
        "def f(q, k, v):\n    w = F.softmax(q @ k.mT)  #!\n    return w @ v\n",
        "w = F.softmax(q @ k.mT, dim=-1)",
    ),
    (
        "X5",
        "attention",
        """
        def attention(q, k, v):
            s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
            return np.exp(s) / np.exp(s).sum(axis=-1, keepdims=True) @ v  #!
        """,
        "np.exp(s - s.max(axis=-1, keepdims=True)) / np.exp(s - s.max(axis=-1, keepdims=True)).sum",
    ),
    (
        "X5",
        "f",
        """
        def my_softmax(x):
            e = torch.exp(x)  #!
            return e / e.sum(-1, keepdim=True)
        def f(q, k, v):
            return my_softmax(q @ k.mT) @ v
        """,
        "e = torch.exp(x - x.amax(dim=-1, keepdim=True))",
    ),
    (
        "X6",
        "f",
        """
        def f(q, k, v):
            scores = q @ k.mT / 8
            weights = torch.softmax(scores, dim=-1)
            return scores @ v  #!
        """,
        "return weights @ v",
    ),
    (
        "X6",
        "f",
        """
        def f(q, k, v):
            scores = q @ k.mT / 8
            F.softmax(scores, dim=-1)  #!
            return scores @ v
        """,
        "scores = F.softmax(scores, dim=-1)",
    ),
    (
        "X7",
        "f",
        """
        def f(q, k, v, mask):
            scores = q @ k.mT / 8
            attn = torch.softmax(scores, dim=-1)
            attn = attn * mask  #!
            return attn @ v
        """,
        'attn = torch.softmax(scores.masked_fill(mask == 0, float("-inf")), dim=-1)',
    ),
    (
        "X7",
        "f",
        """
        import numpy as np
        def f(q, k, v, mask=None):
            attn = softmax(q @ k.T)
            if mask is not None:
                attn *= mask  #!
            return attn @ v
        """,
        "attn = attn / attn.sum(axis=-1, keepdims=True)",
    ),
    (
        "X8",
        "A",
        """
        class A(nn.Module):
            def forward(self, q, k, v):
                scores = q @ k.mT
                w = F.softmax(self.dropout(scores), dim=-1)  #!
                return w @ v
        """,
        "w = self.dropout(F.softmax(scores, dim=-1))",
    ),
    (
        "M1",
        "f",
        """
        def f(q, k, v, mask):
            s = (q @ k.mT).masked_fill(mask == 1, -1e9)  #!
            return s.softmax(-1) @ v
        """,
        "masked_fill(mask == 0, -1e9)",
    ),
    ("M1", "f", "def f(s, mask):\n    s = s + (1.0 - mask) * -1e9  #!\n    return softmax(s)\n", "s = s + mask * -1e9"),
    (
        "M1",
        "f",
        "def f(s, mask):\n    s = np.where(mask, -np.inf, s)  #!\n    return softmax(s)\n",
        "np.where(mask == 0, -np.inf, s)",
    ),
    (
        "M2",
        "f",
        """
        def f(q, k, v, mask=None):
            scores = q @ k.mT
            if mask is not None:
                scores.masked_fill(mask == 0, -1e9)  #!
            return F.softmax(scores, -1) @ v
        """,
        "scores = scores.masked_fill(mask == 0, -1e9)",
    ),
    (
        "M3",
        "MHA",
        """
        class MHA(nn.Module):
            def forward(self, q, k, v, mask=None):
                out = self.attention(q, k, v)  #!
                return self.out(out)
            def attention(self, q, k, v, mask=None):
                s = q @ k.mT
                if mask is not None:
                    s = s.masked_fill(mask == 0, -1e9)
                return s.softmax(-1) @ v
        """,
        "out = self.attention(q, k, v, mask=mask)",
    ),
    (
        "M3",
        "f",
        """
        def f(q, k, v, mask):
            scores = q @ k.mT
            masked = scores.masked_fill(mask == 0, -1e9)
            w = torch.softmax(scores, dim=-1)  #!
            return w @ v
        """,
        "w = torch.softmax(masked, dim=-1)",
    ),
    (
        "M5",
        "f",
        """
        def f(q, k, v, causal=None, padding_mask=None):
            scores = q @ k.mT
            if causal is not None:
                scores = scores.masked_fill(causal == 0, -1e9)
            elif padding_mask is not None:  #!
                scores = scores.masked_fill(padding_mask == 0, -1e9)
            return scores.softmax(-1) @ v
        """,
        "if padding_mask is not None:",
    ),
    (
        "M6",
        "A",
        """
        class A(nn.Module):
            def forward(self, x, mask=None):
                q, k, v = self.qkv(x).chunk(3, -1)
                if mask is None:  #!
                    mask = torch.tril(torch.ones(x.size(1), x.size(1)))
                return (q @ k.mT).masked_fill(mask == 0, -1e9).softmax(-1) @ v
        """,
        "",
    ),
    (
        "M6",
        "A",
        "class A:\n    def f(self, q, k, v, mask):\n        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)  #!\n",
        "",
    ),
    (
        "M7",
        "f",
        """
        def f(q, k, v, mask=None):
            attn_logits = torch.matmul(q, k.transpose(-2, -1)) / 4
            if mask is not None:
                attn_logits += mask  #!
            return torch.softmax(attn_logits, -1) @ v
        """,
        'attn_logits = attn_logits.masked_fill(mask == 0, float("-inf"))',
    ),
    (
        "M8",
        "f",
        "def f(q, k, v, mask):\n    s = q @ k.mT * mask  #!\n    return torch.softmax(s, -1) @ v\n",
        "masked_fill(mask == 0",
    ),
    (
        "M8",
        "f",
        "def f(q, k, v, mask):\n    s = torch.softmax((q @ k.mT).masked_fill(mask == 0, 0), -1)  #!\n    return s @ v\n",
        'masked_fill(mask == 0, float("-inf"))',
    ),
    (
        "M9",
        "f",
        "def f(q, k, v, mask):\n    s = (q @ k.mT).masked_fill(~mask, -1e-9)  #!\n    return torch.softmax(s, -1) @ v\n",
        'masked_fill(~mask, float("-inf"))',
    ),
    (
        "M9",
        "f",
        "import numpy as np\nNEG = 1e-9  #!\ndef f(s, mask):\n    s = np.where(mask == 0, NEG, s)\n    return softmax(s)\n",
        "NEG = -np.inf",
    ),
    (
        "M9",
        "f",
        "def f(s, mask):\n    s = s.masked_fill(mask == 0, -float('-inf'))  #!\n    return torch.softmax(s, -1)\n",
        'float("-inf")',
    ),
    (
        "M11",
        "f",
        "def f(s, mask):\n    s = s.masked_fill(mask.unsqueeze(1).unsqueeze(3) == 0, -1e9)  #!\n    return s.softmax(-1)\n",
        "mask.unsqueeze(1).unsqueeze(2) == 0",
    ),
    (
        "M11",
        "f",
        "def f(s, mask):\n    s = s.masked_fill(~mask[:, None, :, None], -1e9)  #!\n    return s.softmax(-1)\n",
        "mask[:, None, None, :]",
    ),
    (
        "M12",
        "f",
        "def f(s, n):\n    hide = torch.triu(torch.ones(n, n)).bool()  #!\n    return s.masked_fill(hide, -1e9).softmax(-1)\n",
        "hide = torch.triu(torch.ones(n, n), diagonal=1).bool()",
    ),
    (
        "M12",
        "f",
        "def f(s, n):\n    keep = np.tril(np.ones((n, n)), k=-1)  #!\n    return softmax(np.where(keep, s, -1e9))\n",
        "np.tril(np.ones((n, n)), k=0)",
    ),
    (
        "M14",
        "f",
        """
        import torch
        def f(q, k, v):
            scores = q @ k.mT / 8
            weights = scores.softmax(-1)  #!
            return weights @ v
        """,
        'scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))',
    ),
    (
        "M14",
        "f",
        "def f(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v)  #!\n",
        "(q, k, v, is_causal=True)",
    ),
    (
        "M15",
        "f",
        "def f(q, mask, h):\n    mask = mask.repeat(h, 1, 1)  #!\n    return q.masked_fill(mask, 0)\n",
        "mask = mask.repeat_interleave(h, dim=0)",
    ),
    ("M16", "f", "def f(s, mask):\n    s = s.masked_fill(mask == 0, -1e9)  #!\n    return s.softmax(-1)\n", ""),
    (
        "M17",
        "f",
        "def f(s, mask=None):\n    if mask == True:  #!\n        s = s.masked_fill(mask, -1e9)\n    return s.softmax(-1)\n",
        "if mask is not None:",
    ),
    (
        "M17",
        "f",
        "def f(s, mask=None):\n    s = s.masked_fil(mask == 0, -1e9)  #!\n    return s.softmax(-1)\n",
        "s = s.masked_fill(mask == 0, -1e9)",
    ),
    (
        "M17",
        "f",
        "def f(s, mask=None):\n    mask = mask.to(s.device)  #!\n    if mask is not None:\n        s = s.masked_fill(mask, -1e9)\n    return s.softmax(-1)\n",
        "",
    ),
    (
        "M18",
        "f",
        "def f(s, mask=None):\n    s = s.masked_fill(mask, float('-inf'))  #!\n    return s.softmax(-1)\n",
        "",
    ),
    (
        "M19",
        "f",
        "def f(s, mask):\n    s = s.masked_fill(mask == 0, -1000)  #!\n    return s.softmax(-1)\n",
        'masked_fill(mask == 0, float("-inf"))',
    ),
    (
        "M20",
        "A",
        """
        class A(nn.Module):
            def forward(self, q, k, v):
                att = q @ k.mT
                att = att.masked_fill(self.mask == 0, -1e9)  #!
                return att.softmax(-1) @ v
        """,
        "self.mask[..., :att.shape[-2], :att.shape[-1]] == 0",
    ),
    (
        "M21",
        "f",
        "def f(n, window):\n    i = torch.arange(n)\n    keep = (i[:, None] - i[None]) <= window  #!\n    return keep\n",
        "",
    ),
    (
        "H1",
        "A",
        """
        class A(nn.Module):
            def forward(self, x):
                b, n, d = x.shape
                q = self.q(x).view(b, self.n_heads, n, self.d_k)  #!
                k = self.k(x).view(b, self.n_heads, n, self.d_k)
                return torch.softmax(q @ k.mT, -1)
        """,
        "q = self.q(x).view(b, n, self.n_heads, self.d_k).transpose(1, 2)",
    ),
    (
        "H1",
        "split",
        "import numpy as np\ndef split(x, h):\n    b, n, d = x.shape\n    return x.reshape(b, h, n, d // h)  #!\n",
        "return x.reshape(b, n, h, d // h).transpose(0, 2, 1, 3)",
    ),
    (
        "H2",
        "A",
        """
        class A(nn.Module):
            def forward(self, q, k, v):
                q = q.view(2, -1, 4, 8).transpose(1, 2)
                attn = torch.softmax(q @ k.mT, -1)
                out = torch.matmul(attn, v)
                out = out.contiguous().view(2, -1, 32)  #!
                return self.fc(out)
        """,
        "out = out.transpose(1, 2).contiguous().view(2, -1, 32)",
    ),
    (
        "H2",
        "f",
        """
        def f(q, k, v, b, n, d):
            o = F.scaled_dot_product_attention(q, k, v)
            return o.view(b, n, d)  #!
        """,
        "return o.transpose(1, 2).reshape(b, n, d)",
    ),
    ("H3", "f", "def f(x, h, b, n, d):\n    return x.view(h, b, n, d)  #!\n", ""),
    (
        "H6",
        "A",
        """
        class A(nn.Module):
            def __init__(self, embed_dim, heads):
                self.head_dim = embed_dim // heads
                self.q = nn.Linear(self.head_dim, self.head_dim, bias=False)  #!
        """,
        "",
    ),
    ("H7", "f", "def f(self, x):\n    q, k, v = self.qkv(x).chunk(3, dim=-1)  #!\n    return q\n", ""),
    (
        "H8",
        "f",
        "def f(q, k, v, rep):\n    k = k.repeat(1, rep, 1, 1)  #!\n    return k\n",
        "k = k.repeat_interleave(rep, dim=1)",
    ),
    (
        "H8",
        "f",
        "def f(q, k, v, rep):\n    k = np.tile(k, (1, rep, 1, 1))  #!\n    return k\n",
        "k = np.repeat(k, rep, axis=1)",
    ),
    (
        "H8",
        "f",
        "def f(q, k, v, rep):\n    k = torch.cat([k] * rep, dim=1)  #!\n    return k\n",
        "k = k.repeat_interleave(rep, dim=1)",
    ),
    (
        "H8",
        "f",
        "def f(q, k, v, rep):\n    kk, vv = k.repeat(1, rep, 1, 1), v.repeat(1, rep, 1, 1)  #!\n    return kk, vv\n",
        "kk, vv = k.repeat_interleave(rep, dim=1), v.repeat_interleave(rep, dim=1)",
    ),
    (
        "H8",
        "f",
        "def f(q, k, v, rep):\n    k, v = torch.cat([k] * rep, 1), torch.cat([v] * rep, 1)  #!\n    return k, v\n",
        "k, v = k.repeat_interleave(rep, dim=1), v.repeat_interleave(rep, dim=1)",
    ),
    (
        "H8",
        "f",  # a half of the cure on the next line
        "def f(q, k, v, rep):\n    k = k.repeat(1, rep, 1, 1)  #!\n    v = v.repeat(1, rep, 1, 1)\n    return k, v\n",
        "v = v.repeat_interleave(rep, dim=1)",
    ),
    (
        "H8",
        "f",  # what is repeated otherwise is another thing
        "def f(k, x, rep, n):\n    k = k.repeat(1, rep, 1, 1)  #!\n    x = x.repeat(n, 1)\n    return k, x\n",
        "k = k.repeat_interleave(rep, dim=1)",
    ),
    (
        "H9",
        "A",
        "class A(nn.Module):\n    def __init__(self, d, h):\n        self.a = nn.MultiheadAttention(d, h)  #!\n",
        "nn.MultiheadAttention(d, h, batch_first=True)",
    ),
    (
        "H10",
        "M",
        """
        class M(nn.Module):
            def __init__(self, d, n):
                layer = Layer(d)
                self.layers = nn.ModuleList([layer] * n)  #!
        """,
        "self.layers = nn.ModuleList([Layer(d) for _ in range(n)])",
    ),
    (
        "H10",
        "M",
        "class M(nn.Module):\n    def __init__(self, layer, n):\n        self.layers = nn.ModuleList([layer for _ in range(n)])  #!\n",
        "[copy.deepcopy(layer) for _ in range(n)]",
    ),
    (
        "H11",
        "M",
        "class M(nn.Module):\n    def forward(self, x):\n        heads = [h(x) for h in self.heads]\n        return torch.stack(heads).mean(0)  #!\n",
        "return torch.cat(heads, dim=-1)",
    ),
    (
        "P1",
        "A",
        """
        class A(nn.Module):
            def __init__(self, d):
                self.q_proj = nn.Linear(d, d)
                self.k_proj = nn.Linear(d, d)
                self.v_proj = nn.Linear(d, d)
            def forward(self, x):
                q = self.q_proj(x)
                k = self.k_proj(x)
                v = self.k_proj(x)  #!
                return q, k, v
        """,
        "v = self.v_proj(x)",
    ),
    (
        "P2",
        "A",
        """
        def forward(self, query, key, value):
            Q = self.w_q(query)
            K = self.w_k(key)
            V = self.w_v(value)
            Q = K.view(1, 2, 3)  #!
            return Q
        """,
        "Q = Q.view(1, 2, 3)",
    ),
    (
        "P4",
        "A",
        """
        class A(nn.Module):
            def __init__(self, d):
                self.out_proj = nn.Linear(d, d)
            def forward(self, x):
                y = torch.softmax(x @ x.mT, -1) @ x
                return y  #!
        """,
        "return self.out_proj(y)",
    ),
    (
        "C1",
        "DecoderLayer",
        """
        class DecoderLayer(nn.Module):
            def forward(self, x, enc_out, src_mask, tgt_mask):
                x = x + self.self_attn(x, x, x, tgt_mask)
                x = x + self.cross_attn(x, x, x, src_mask)  #!
                return x
        """,
        "x = x + self.cross_attn(x, enc_out, enc_out, src_mask)",
    ),
    (
        "C2",
        "DecoderLayer",
        """
        class DecoderLayer(nn.Module):
            def forward(self, x, memory, src_mask, tgt_mask):
                x = x + self.self_attn(x, x, x, tgt_mask)
                return x + self.src_attn(x, memory, memory, tgt_mask)  #!
        """,
        "self.src_attn(x, memory, memory, src_mask)",
    ),
    (
        "C3",
        "A",
        """
        class A(nn.Module):
            def forward(self, query, key, value):
                B, n, _ = query.shape
                q = self.q(query).view(B, n, self.h, self.d_k)
                k = self.k(key).view(B, n, self.h, self.d_k)  #!
                return q @ k
        """,
        "k = self.k(key).view(B, -1, self.h, self.d_k)",
    ),
    (
        "C4",
        "T",
        """
        class T(nn.Module):
            def __init__(self, src_pad_idx, trg_pad_idx):
                self.src_pad_idx = src_pad_idx
                self.trg_pad_idx = trg_pad_idx
            def mask(self, trg):
                return (trg != self.src_pad_idx).unsqueeze(1)  #!
        """,
        "return (trg != self.trg_pad_idx).unsqueeze(1)",
    ),
    (
        "C5",
        "D",
        "class D(nn.Module):\n    def forward(self, x, memory):\n        return self.cross_attn(memory, x, x)  #!\n",
        "self.cross_attn(x, memory, memory)",
    ),
    (
        "R1",
        "PE",
        """
        class PE(nn.Module):
            def __init__(self, d_model, n):
                for pos in range(n):
                    for i in range(0, d_model, 2):
                        self.pe[pos, i] = math.sin(pos / (10000 ** ((2 * i) / d_model)))  #!
        """,
        "(10000 ** ((i) / d_model))",
    ),
    (
        "R1",
        "pe",
        "def pe(d, n):\n    w = torch.exp(torch.arange(0, d, 2) * -(math.log(1000.0) / d))  #!\n    return w\n",
        "math.log(10000)",
    ),
    (
        "R3",
        "PE",
        """
        class PE(nn.Module):
            def __init__(self, pe):
                self.register_buffer("pe", pe.unsqueeze(0))
            def forward(self, x):
                return x + self.pe[:x.size(0)]  #!
        """,
        "return x + self.pe[:, :x.size(1)]",
    ),
    (
        "R4",
        "rope",
        """
        def rotate(x):
            a, b = x[..., ::2], x[..., 1::2]
            return torch.stack((-b, a), -1).flatten(-2)
        def rope(x, freqs):
            emb = torch.cat((freqs, freqs), dim=-1)  #!
            return x * emb.cos() + rotate(x) * emb.sin()
        """,
        "emb = freqs.repeat_interleave(2, dim=-1)",
    ),
    ("R7", "slopes", "def slopes(H):\n    return 2 ** (-8 * torch.arange(H) / H)  #!\n", ""),
    ("K1", "f", "def f(self, q, k, cache):\n    q = self.rope(q)  #!\n    return q\n", ""),
    (
        "K1",
        "A",
        """
        class A(nn.Module):
            def forward(self, x, past_kv=None):
                T = x.size(1)
                start = 0  #!
                c, s = self.cos[start:start + T], self.sin[start:start + T]
                q, k = apply_rope(self.q(x), c, s), apply_rope(self.k(x), c, s)
                if past_kv is not None:
                    k = torch.cat([past_kv[0], k], 2)
                return q, k
        """,
        "start = 0 if past_kv is None else past_kv[0].size(2)",
    ),
    (
        "K1",
        "A",  # what is set again later is no mistake
        """
        class A(nn.Module):
            def forward(self, x, past_kv=None):
                start = 0
                if past_kv is not None:
                    start = past_kv[0].size(2)
                q = apply_rope(self.q(x))  #!
                return q
        """,
        "",
    ),
    (
        "K2",
        "f",
        "def f(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v, is_causal=True)  #!\n",
        "is_causal=q.size(-2) == k.size(-2)",
    ),
    (
        "N1",
        "f",
        "def f(s, mask):\n    s = s.masked_fill(mask == 0, -1e9)  #!\n    return s.softmax(-1)\n",
        'masked_fill(mask == 0, float("-inf"))',
    ),
    (
        "N2",
        "f",
        "def f(s, mask):\n    w = s.softmax(-1)\n    w.masked_fill_(mask, 0)  #!\n    return w\n",
        "w = w.masked_fill(mask, 0)",
    ),
    ("N3", "f", "def f(x, y):\n    x += y  #!\n    return x\n", "x = x + y"),
    (
        "T1",
        "Block",
        """
        class Block(nn.Module):
            def __init__(self, d_model):
                super().__init__()
                self.d_model = d_model
            def forward(self, x):
                return nn.LayerNorm(self.d_model)(x)  #!
        """,
        "return self.norm(x)",
    ),
    (
        "T2",
        "M",
        "class M(nn.Module):\n    def __init__(self, n):\n        self.heads = [Head() for _ in range(n)]  #!\n",
        "self.heads = nn.ModuleList([Head() for _ in range(n)])",
    ),
    (
        "T2",
        "M",
        "class M(nn.Module):\n    def __init__(self, n):\n        self.w = torch.randn(n, n) / n ** 0.5  #!\n",
        "self.w = nn.Parameter(torch.randn(n, n) / n ** 0.5)",
    ),
    (
        "T3",
        "M",
        "class M(nn.Module):\n    def forward(self, x):\n        return F.dropout(x, 0.1)  #!\n",
        "F.dropout(x, 0.1, training=self.training)",
    ),
    (
        "T3",
        "M",
        "class M(nn.Module):\n    def forward(self, q, k, v):\n        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)  #!\n",
        "dropout_p=self.p if self.training else 0.0",
    ),
    (
        "T5",
        "Block",
        """
        class Block(nn.Module):
            def forward(self, x):
                x = self.norm1(x)  #!
                x = x + self.attn(x, x, x)
                return x
        """,
        "x = x + self.attn(normed, normed, normed)",
    ),
    (
        "T6",
        "Block",
        "class Block(nn.Module):\n    def forward(self, x):\n        h = self.attn(x)\n        x = x + x  #!\n        return x\n",
        "",
    ),
    (
        "T8",
        "Block",
        "class Block(nn.Module):\n    def forward(self, x):\n        return x + self.attn(self.norm(x), x, x)  #!\n",
        "self.attn(self.norm(x), self.norm(x), self.norm(x))",
    ),
    (
        "E1",
        "A",
        "class A(nn.Module):\n    def forward(self, x):\n        m = torch.tril(torch.ones(3, 3))  #!\n        return m\n",
        "",
    ),
    (
        "E1",
        "A",
        "class A(nn.Module):\n    def forward(self, x):\n        return torch.cat([h(x) for h in self.heads], -1)  #!\n",
        "",
    ),
    (
        "S3",
        "Wide",
        """
        class Wide(nn.Module):
            def __init__(self, emb, heads):
                self.emb, self.heads = emb, heads
            def forward(self, x):
                s = self.emb // self.heads
                q = self.toqueries(x) / (self.emb ** (1/4))  #!
                k = self.tokeys(x) / (s ** (1/4))
                dot = torch.bmm(q, k.transpose(1, 2))
                return F.softmax(dot, dim=2)
        """,
        "q = self.toqueries(x) / (s ** (1/4))",
    ),
    (
        "S6",
        "f",
        """
        def f(q, k, v, d_k):
            w = softmax(q @ k.swapaxes(-1, -2))
            w = w / np.sqrt(d_k)  #!
            return w @ v
        """,
        "w = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(d_k))",
    ),
    (
        "X6",
        "f",
        """
        def f(self, q, k, v):
            energy = q @ k.mT / 8
            attention = torch.softmax(energy, dim=-1)
            attention = self.dropout(energy)  #!
            return attention @ v
        """,
        "attention = self.dropout(attention)",
    ),
    (
        "M7",
        "A",
        """
        class A(nn.Module):
            def __init__(self, n):
                self.register_buffer("future", torch.triu(torch.ones(n, n), diagonal=1))
                self.causal = True
            def forward(self, q, k, v):
                s = q @ k.mT
                s = s + self.causal_mask(3)  #!
                return s.softmax(-1) @ v
        """,
        "",
    ),
    (
        "M7",
        "A",
        """
        class A(nn.Module):
            def __init__(self, n):
                self.register_buffer("future_mask", torch.triu(torch.ones(n, n), diagonal=1))
            def forward(self, q, k, v):
                s = q @ k.mT
                s = s + self.future_mask[:3, :3]  #!
                return s.softmax(-1) @ v
        """,
        's = s.masked_fill(self.future_mask[:3, :3] != 0, float("-inf"))',
    ),
    (
        "M12",
        "f",
        """
        def f(s, n):
            causal_mask = torch.triu(torch.ones(n, n))  #!
            s = s.masked_fill(causal_mask == 0, float("-inf"))
            return s.softmax(-1)
        """,
        "causal_mask = torch.tril(torch.ones(n, n))",
    ),
    (
        "H1",
        "A",
        """
        class A(nn.Module):
            def forward(self, q, k, b):
                q = q.view(b * self.num_heads, -1, self.d_k)  #!
                w = torch.softmax(torch.bmm(q, k.transpose(1, 2)), -1)
                context = torch.bmm(w, k)
                return context.view(b, self.num_heads, -1, self.d_k).transpose(1, 2)
        """,
        "",
    ),
    (
        "H1",
        "A",
        """
        class A(nn.Module):
            def forward(self, q, k, b, n):
                q = q.reshape(b, self.num_heads, n, self.head_dim)  #!
                k = k.reshape(b, self.num_heads, self.head_dim, n)
                return torch.softmax(q @ k, -1)
        """,
        "k = k.reshape(b, n, self.num_heads, self.head_dim).permute(0, 2, 3, 1)",
    ),
    (
        "P1",
        "A",
        """
        class A(nn.Module):
            def forward(self, x):
                q = self.linears[0](x).view(1, 2, 3)
                k = self.linears[0](x).view(1, 2, 3)  #!
                v = self.linears[2](x).view(1, 2, 3)
                return self.linears[3](q @ k.mT @ v)
        """,
        "k = self.linears[1](x).view(1, 2, 3)",
    ),
    (
        "C1",
        "CrossAttention",
        """
        class CrossAttention(nn.Module):
            def forward(self, x, context):
                q = self.wq(x)
                k = self.wk(x)  #!
                v = self.wv(x)
                return torch.softmax(q @ k.mT, -1) @ v
        """,
        "v = self.wv(context)",
    ),
    (
        "R1",
        "pe",
        """
        def pe(n, d):
            for pos in range(n):
                for i in range(0, d, 2):
                    out[pos, i] = np.sin(pos / 10000 ** (i / d))
                    out[pos, i + 1] = np.cos(pos / 10000 ** ((i + 1) / d))  #!
        """,
        "np.cos(pos / 10000 ** ((i) / d))",
    ),
    (
        "R5",
        "A",
        """
        def rotary(x):
            n = x.shape[-2]  #!
            return x * torch.arange(n)[:, None].cos()
        class A(nn.Module):
            def forward(self, x):
                return rotary(self.q(x).view(1, 2, 3, 4))
        """,
        "",
    ),
    (
        "R7",
        "f",
        "def f(n):\n    start = 2 ** (-8 / n)\n    return [start**i for i in range(n)]  #!\n",
        "start**(i + 1) for i",
    ),
    (
        "K1",
        "A",
        """
        class A(nn.Module):
            def forward(self, x, start_pos):
                n = x.size(1)
                freqs_cis = self.freqs_cis[:n]  #!
                return apply_rotary(x, freqs_cis)
        """,
        "freqs_cis = self.freqs_cis[start_pos : start_pos + n]",
    ),
    (
        "T2",
        "M",
        "class M(nn.Module):\n    def __init__(self, d):\n        self.p = {n: nn.Linear(d, d) for n in 'qkv'}  #!\n",
        "self.p = nn.ModuleDict({n: nn.Linear(d, d) for n in 'qkv'})",
    ),
    (
        "T6",
        "Block",
        """
        class Block(nn.Module):
            def forward(self, x):
                out = self.norm1(x + self.attn(x))
                forward = self.feed_forward(out)
                return self.norm2(x + self.dropout(forward))  #!
        """,
        "return self.norm2(out + self.dropout(forward))",
    ),
    (
        "T6",
        "Block",
        """
        class Block(nn.Module):
            def forward(self, x):
                x = x + self.sa(self.ln1(x))
                x = self.ffwd(self.ln2(x))  #!
                return x
        """,
        "x = x + self.ffwd(self.ln2(x))",
    ),
    (
        "X1",
        "A",
        """
        class A(nn.Module):
            def __init__(self):
                self.softmax = nn.Softmax(dim=0)  #!
            def forward(self, query, key, value):
                scores = torch.einsum("ibhd,jbhd->ijbh", query, key)
                return torch.einsum("ijbh,jbhd->ibhd", self.softmax(scores), value)
        """,
        "self.softmax = nn.Softmax(dim=1)",
    ),
    (
        "R1",
        "pe",
        """
        def pe(n, d):
            for i in range(0, d, 2):
                out[:, i] = np.sin(pos / 10000 ** (2 * i / d))  #!
                out[:, i + 1] = np.cos(pos / 10000 ** (2 * (i + 1) / d))
        """,
        "out[:, i + 1] = np.cos(pos / 10000 ** (i / d))",
    ),
    (
        "R1",
        "pe",
        """
        def pe(n, d):
            for i in range(d):
                if i % 2 == 0:
                    out[:, i] = np.sin(pos / 10000 ** (i / d))
                else:
                    out[:, i] = np.cos(pos / 10000 ** ((i + 1) / d))  #!
        """,
        "out[:, i] = np.cos(pos / 10000 ** ((i - 1) / d))",
    ),
    (
        "M7",
        "f",
        """
        def f(q, k, v, n):
            look_ahead = 1 - torch.tril(torch.ones(n, n))
            s = q @ k.mT + look_ahead  #!
            return torch.softmax(s, -1) @ v
        """,
        's = (q @ k.mT).masked_fill(look_ahead != 0, float("-inf"))',
    ),
    (
        "T6",
        "Block",
        """
        class Block(nn.Module):
            def forward(self, x):
                x = self.attention(x)
                x = self.norm1(x + x)  #!
                return x
        """,
        "x = self.norm1(x + self.attention(x))",
    ),
    (
        "X7",
        "f",
        """
        def f(q, k, v, mask):
            att = torch.softmax(q @ k.mT / 8, dim=-1)
            att = att.masked_fill(mask[:, None] == 0, 0.0)  #!
            return att @ v
        """,
        'att = torch.softmax((q @ k.mT / 8).masked_fill(mask[:, None] == 0, float("-inf")), dim=-1)',
    ),
    (
        "X8",
        "A",
        """
        class A(nn.Module):
            def forward(self, q, k, v):
                scores = q @ k.mT
                scores = self.dropout(scores)  #!
                return F.softmax(scores, dim=-1) @ v
        """,
        "return self.dropout(F.softmax(scores, dim=-1)) @ v",
    ),
    (
        "X5",
        "softmax",
        """
        def softmax(x):
            e = np.exp(x - np.max(x))  #!
            return e / e.sum(axis=-1, keepdims=True)
        """,
        "e = np.exp(x - np.max(x, axis=-1, keepdims=True))",
    ),
    (
        "M5",
        "f",
        """
        def f(scores, future, padding_mask=None):
            logits = scores.masked_fill(future, float("-inf"))
            if padding_mask is not None:
                logits = scores.masked_fill(padding_mask, float("-inf"))  #!
            return logits.softmax(-1)
        """,
        'logits = logits.masked_fill(padding_mask, float("-inf"))',
    ),
    (
        "N2",
        "f",
        "def f(s, mask):\n    w = torch.softmax(s, -1)\n    w[mask.expand_as(w)] = 0.0  #!\n    return w\n",
        "w = w.masked_fill(mask.expand_as(w), 0.0)",
    ),
    (
        "T2",
        "M",
        """
        class M(nn.Module):
            def __init__(self, d):
                self.register_buffer("table", torch.zeros(d, d))
                self.cache_k = torch.zeros(d, d)
                self.w_q = torch.randn(d, d)  #!
                self.w_k = torch.randn(d, d)
        """,
        "self.w_k = nn.Parameter(torch.randn(d, d))",
    ),
]


def marked(text):
    """The code without its mark, and the marked line."""
    lines = textwrap.dedent(text).split("\n")
    [line] = [n for n, one in enumerate(lines, 1) if one.endswith("#!")]
    return SimpleNamespace(text="\n".join(one.removesuffix("#!").rstrip() for one in lines)), line


@pytest.mark.parametrize(
    ("id", "name", "text", "patched"), SNIPPETS, ids=[f"{s[0]}-{n}" for n, s in enumerate(SNIPPETS)]
)
def test_the_line_is_found_and_the_patch_fits(id, name, text, patched):
    source, line = marked(text)
    place = locate(id, source, name)
    assert place is not None
    assert place.line == line, place
    if patched:
        assert any(one.startswith("+ ") and patched in one for one in place.diff.split("\n")), place.diff
    assert applied(source.text, place.diff)


def applied(text, diff):
    """Whether a patch fits: its old lines are there word for word, and the result is Python."""
    assert ast.parse(patched_text(text, diff)).body
    return True


def patched_text(text, diff):
    """The text with the patch put in."""
    lines, at, indent = text.split("\n"), 0, ""
    for one in diff.split("\n") if diff else []:
        sign, body = one[0], one[2:]
        if sign == "+":
            lines.insert(at, indent + body)
            at += 1
            continue
        at = next(n for n in range(at, len(lines)) if lines[n].strip() == body.strip())
        indent = lines[at][: len(lines[at]) - len(body)]
        if sign == "-":
            del lines[at]
        else:
            assert sign == " "
            at += 1
    return "\n".join(lines)


def test_every_rule_has_an_example():
    rest = {"M5", "H4", "P3", "R5", "R6", "K3", "K4", "K5", "W1"}
    rest |= {id for id in CATALOGUE if id[0] == "L"}  # test_mixers.py has three files for each
    assert CATALOGUE.keys() - {s[0] for s in SNIPPETS} <= rest


def test_what_is_checked_comes_before_the_rest_of_the_file():
    text = """
def other(q, k, v):
    return torch.softmax(q @ k.mT, dim=0) @ v
def mine(q, k, v):
    return helper(q @ k.mT) @ v
def helper(s):
    return torch.softmax(s, dim=1)
"""
    assert locate("X1", SimpleNamespace(text=text), "mine").line == 7
    assert locate("X1", SimpleNamespace(text=text), "other").line == 3
    assert locate("X1", SimpleNamespace(text=text), "unheard_of").line in (3, 7)


def test_weights_without_a_gradient_are_told_whole():
    """The evidence names them in one text; the rule gets them one by one."""
    file = read(Path(__file__).parent / "corpora" / "faulty" / "p1_v_from_k.py")
    [found] = check(file.load("MultiHeadAttention"), source=file, name="MultiHeadAttention").findings
    assert "+ v = self.v_proj(value)" in found.diff


def test_columns_count_characters_not_bytes():
    text = "def f(q, k, v):\n    分数 = q @ k.mT; w = torch.softmax(分数, dim=-2)\n    return w @ v\n"
    assert locate("X1", SimpleNamespace(text=text), "f").diff.endswith(
        "+ 分数 = q @ k.mT; w = torch.softmax(分数, dim=-1)"
    )


@pytest.mark.parametrize(
    "source", [None, SimpleNamespace(), SimpleNamespace(text="def f(:"), SimpleNamespace(text=""), 7]
)
def test_without_a_source_there_is_no_line(source):
    assert all(locate(id, source, "f") is None for id in CATALOGUE)


def test_no_tree_makes_it_raise(monkeypatch):
    """Trees with parts cut out, swapped and repeated: rules see shapes no parser makes, and give a place or None."""
    import qkv.doctor.places as lines

    dice, tried = random.Random(6), 0
    texts = [marked(s[2])[0].text for s in SNIPPETS]
    for _ in range(15):
        text = "\n".join(dice.sample(texts, 2))
        tree = ast.parse(text)
        nodes = [n for n in ast.walk(tree) if isinstance(n, ast.expr)]
        for node in dice.sample(nodes, 6):
            other = dice.choice(nodes)
            for field, value in list(ast.iter_fields(node)):
                if isinstance(value, list) and value:
                    setattr(node, field, value[1:] if dice.random() < 0.5 else [*value, *value])
                elif isinstance(value, ast.expr) and not any(n is node for n in ast.walk(other)):
                    setattr(node, field, other)
        cut = text.split("\n")[: dice.randrange(3, 40)]
        for given in (text, "\n".join(cut)):
            source = SimpleNamespace(text=given, tree=tree, lines=given.split("\n"))
            for id in CATALOGUE:
                place = lines.locate(id, source, dice.choice(["A", "f", "M", None]))
                assert place is None or isinstance(place.line, int)
                tried += 1
            says(source, "A")
    assert tried > 1000


@pytest.mark.parametrize("id", CATALOGUE)
def test_patches_of_wrong_rules_are_python_too(id):
    """Whatever mistake is looked for in whatever code: a patch removes lines that are there and leaves Python."""
    for one in SNIPPETS[list(CATALOGUE).index(id) % 3 :: 3]:
        source, _ = marked(one[2])
        place = locate(id, source, one[1])
        if place is not None:
            assert 1 <= place.line <= source.text.count("\n") + 1
            assert applied(source.text, place.diff), (one[0], place.diff)


FACTS = """
class Causal(nn.Module):
    def __init__(self, d, h):
        self.scale = d ** -0.5
        self.h = h
    def forward(self, x, mask=None, extra=None):
        s = x @ x.mT
        for i in range(self.h):
            s = s + x[i] @ x[i]
        keep = torch.tril(torch.ones(3, 3))
        s.masked_fill(keep == 0, -1e9)
        if mask is not None:
            s = s.masked_fill(mask == 0, -1e9)
        return F.dropout(s.softmax(-1), 0.1)
"""


def test_what_a_source_says():
    told = says(parse(FACTS), "Causal")
    assert (told.loop_over_heads, told.mask_built_in_forward, told.bare_fill) == (8, 10, 11)
    assert (told.unused_arguments, told.fill, told.segment) == (("extra",), -1e9, FACTS.strip())


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in FAULTY if case.expects[0] not in REMARKS], ids=str)
def test_a_patch_cures(case, tmp_path):
    """The doctor no longer finds in patched code what it found before; where there is no patch, there is a line."""
    faulty = Path(__file__).parent / "corpora" / "faulty" / case.file
    source = read(faulty)
    [id, *_] = case.expects
    place = locate(id, source, case.name, mask_words=says(source, case.name).mask_words)
    assert place is not None
    if not place.diff:
        return
    file = tmp_path / case.file
    file.write_text(patched_text(source.text, place.diff), encoding="utf-8")
    cured = read(file)
    report = check(cured.load(case.name), source=cured, name=case.name, **case.options)
    assert id not in [found.id for found in report.findings]


def test_names_are_followed_to_what_they_stand_for():
    code = Code.read("def f(x):\n    B, T, C = x.shape\n    d = C\n    return d\nd = 3\n")
    back = next(n for n in ast.walk(code.tree) if isinstance(n, ast.Return))
    assert ast.unparse(code.resolve(back.value)) == "x.shape[2]"


def test_a_patch_that_would_not_be_python_is_not_shown():
    code = Code.read("x = 1\ny = 2\n")
    assert code.diff((0, 1, "z")) == "- x = 1\n+ z = 1"
    assert code.diff((0, 1, "(")) == ""
