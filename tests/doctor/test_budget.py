"""What checking a file of many classes may cost, counted in operations and never by a clock."""

import json

import pytest

from qkv.doctor import doctor
from qkv.doctor.source.file import parse, read
from qkv.doctor.subject.errors import CALL, OPERATIONS, Budget

pytestmark = pytest.mark.usefixtures("warm")

# A notebook with GPT-2 in it, sizes and all, in nine classes; the scale of one is wrong, so patches are tried as well.
CELLS = [
    """
import math
from dataclasses import dataclass
import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    vocab_size: int = 50257
    block_size: int = 1024
    n_embd: int = 768
    n_head: int = 12
    n_layer: int = 12
    dropout: float = 0.1


class SelfAttention(nn.Module):
    def __init__(self, config=GPTConfig()):
        super().__init__()
        self.q = nn.Linear(config.n_embd, config.n_embd)
        self.k = nn.Linear(config.n_embd, config.n_embd)
        self.v = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(-2, -1)
        return torch.softmax(scores / math.sqrt(x.shape[-1]), dim=-1) @ self.v(x)
""",
    """
class CausalSelfAttention(nn.Module):
    def __init__(self, config=GPTConfig()):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head, self.n_embd = config.n_head, config.n_embd
        self.register_buffer("bias", torch.tril(torch.ones(config.block_size, config.block_size)).view(1, 1, config.block_size, config.block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        att = q @ k.transpose(-2, -1) / math.sqrt(C)
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
""",
    """
class FlashAttention(nn.Module):
    def __init__(self, config=GPTConfig()):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head = config.n_head

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))
""",
    """
class Head(nn.Module):
    def __init__(self, config=GPTConfig()):
        super().__init__()
        size = config.n_embd // config.n_head
        self.query, self.key, self.value = (nn.Linear(config.n_embd, size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(config.block_size, config.block_size)))

    def forward(self, x):
        T = x.shape[1]
        q, k = self.query(x), self.key(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = F.softmax(wei.masked_fill(self.tril[:T, :T] == 0, float("-inf")), dim=-1)
        return wei @ self.value(x)
""",
    """
class MultiHeadAttention(nn.Module):
    def __init__(self, config=GPTConfig()):
        super().__init__()
        self.heads = nn.ModuleList([Head(config) for _ in range(config.n_head)])
        self.proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x):
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))
""",
    """
class CrossAttention(nn.Module):
    def __init__(self, config=GPTConfig()):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(config.n_embd, config.n_embd) for _ in range(4))
        self.h = config.n_head

    def forward(self, x, memory, mask=None):
        B, N, C = x.shape
        q, k, v = (f(t).view(B, -1, self.h, C // self.h).transpose(1, 2) for f, t in ((self.q_proj, x), (self.k_proj, memory), (self.v_proj, memory)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(C // self.h)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))
""",
    """
class Block(nn.Module):
    def __init__(self, config=GPTConfig()):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn = CausalSelfAttention(config)
        self.mlp = nn.Sequential(nn.Linear(config.n_embd, 4 * config.n_embd), nn.GELU(), nn.Linear(4 * config.n_embd, config.n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))
""",
    """
class DecoderBlock(nn.Module):
    def __init__(self, config=GPTConfig()):
        super().__init__()
        self.ln_1, self.ln_2, self.ln_3 = (nn.LayerNorm(config.n_embd) for _ in range(3))
        self.attn, self.cross = CausalSelfAttention(config), CrossAttention(config)
        self.mlp = nn.Sequential(nn.Linear(config.n_embd, 4 * config.n_embd), nn.GELU(), nn.Linear(4 * config.n_embd, config.n_embd))

    def forward(self, x, memory, mask=None):
        x = x + self.attn(self.ln_1(x))
        x = x + self.cross(self.ln_2(x), memory, mask)
        return x + self.mlp(self.ln_3(x))
""",
    """
class GPT(nn.Module):
    def __init__(self, config=GPTConfig()):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))
        return logits, loss
""",
]


@pytest.fixture
def payments(monkeypatch):
    """What every call of the user's code is estimated to cost."""
    paid, pay = [], Budget.pay

    def counted(budget, operations):
        paid.append(operations)
        pay(budget, operations)

    monkeypatch.setattr(Budget, "pay", counted)
    return paid


def test_a_notebook_of_nine_classes_is_checked_at_our_sizes(tmp_path, payments):
    cells = [{"cell_type": "code", "source": cell.strip("\n"), "metadata": {}, "outputs": []} for cell in CELLS]
    (tmp_path / "gpt.ipynb").write_text(json.dumps({"cells": cells}))
    source = read(tmp_path / "gpt.ipynb")
    names = source.candidates()
    assert len(names) == 9
    reports = {name: doctor.check(source.load(name), source=source, name=name) for name in names}
    wrong = {name for name, report in reports.items() if report.verdict == "wrong"}
    assert wrong == {"CausalSelfAttention", "Block", "DecoderBlock", "GPT"}
    assert {finding.id for report in reports.values() for finding in report.findings} == {"S3"}
    # At GPT-2's own sizes one call of the whole model costs 9e9, and all came to 1.3e12.
    assert max(payments) < 4 * CALL and sum(payments) < 6e10, f"{max(payments):.1e} {sum(payments):.1e}"


LARGE = """
import torch
from torch import nn

class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(512, 512) for _ in range(3))

    def forward(self, x):
        return torch.softmax(self.q(x) @ self.k(x).transpose(-2, -1), dim=-1) @ self.v(x)
"""


def test_the_objects_of_a_file_share_their_operations(payments, monkeypatch):
    monkeypatch.setattr(doctor, "LEAST", 1e9)
    source = parse("\n".join([LARGE, LARGE.replace("First", "Second"), LARGE.replace("First", "Third")]))
    spent = []
    for name in ("First", "Second", "Third"):
        payments.clear()
        report = doctor.check(source.load(name), source=source, name=name, operations=3e9)
        assert [one.id for one in report.findings] == ["S2"]
        spent.append(sum(payments))
    assert max(spent[1:]) < 4.2e9 < 5e9 < spent[0], spent  # a check, one with larger sizes, and one of the patch
    alone = parse(LARGE)
    payments.clear()
    doctor.check(alone.load("First"), source=alone, name="First", operations=3e9)
    assert sum(payments) == spent[0]  # another file has its own


def test_whatever_the_operations_are_there_is_a_report():
    """Finding the line, and trying a patch, must not cost the finding itself."""
    source = parse(LARGE)
    target = source.load("First")
    for calls in (0, 1, 3, 6, 10, 15, 25, 39):
        report = doctor.check(target, name="First", source=parse(LARGE), operations=(calls + 0.5) * 7.6e7)
        assert report.verdict != "right" and (report.verdict == "unknown") == (report.problem is not None)
    assert [one.id for one in report.findings] == ["S2"]


def test_every_object_of_our_sizes_can_be_checked_to_the_end():
    assert 1000 * CALL < doctor.LEAST < OPERATIONS


def test_the_ids_of_a_text_count_as_tokens(payments):
    """A model that reads ids, (B, N), computes for each of them."""
    source = parse(LARGE + TOKENS)
    doctor.check(source.load("Reader"), source=source, name="Reader")
    weights = 3 * (512 * 512 + 512) + 13 * 512
    assert min(payments) >= CALL + 2 * weights and max(payments) >= CALL + 2 * weights * 5 * 7


TOKENS = """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(13, 512)
        self.attention = First()

    def forward(self, ids):
        return self.attention(self.embed(ids))
"""
