"""One mistake hides another: once the first is mended in memory, the second shows and is named too."""

import textwrap
from dataclasses import dataclass

import pytest

from qkv.doctor import doctor
from qkv.doctor.source import file as source

HEAD = """
import math
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
"""
HEADS = """
class Heads(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mask=None):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            FILL
        weights = torch.softmax(scores, dim=AXIS)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, c))
"""
LAYER = """
class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = Heads(dim, heads)

    def forward(self, x, mask=None):
        return x + self.heads(CALL)
"""
FILLED = "scores = scores.masked_fill(mask == 0, float('-inf'))"


@dataclass
class Pair:
    """Two mistakes in one file: each `wrong` stands where its `right` should."""

    first: str
    second: str
    name: str
    text: str
    slips: dict[str, tuple[str, str]]  # where → (wrong, right)

    def __str__(self) -> str:
        return f"{self.first} before {self.second}"


ZERO = "scores = scores.masked_fill(mask == 0, 0.0)"
LOOK = """
def look(q, k, v):
    return torch.softmax(q @ TURN / math.sqrt(ROOT), -1) @ v

x = torch.randn(4, 4, 4)
look(x, x, x)
"""
CROSS = """
class Cross(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, memory, memory_mask=None):
        q = self.q(x)
        k = self.k(FROM)
        v = self.v(FROM)
        q, k, v = (y.view(len(x), -1, self.heads, y.size(-1) // self.heads).transpose(1, 2) for y in (q, k, v))
        s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if memory_mask is not None:
            s = s.masked_fill(memory_mask == 0, LOW)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""
PAIRS = [
    Pair("X1", "M8", "Heads", HEADS, {"AXIS": ("-2", "-1"), "FILL": (ZERO, FILLED)}),
    Pair("M2", "M8", "Heads", HEADS, {"AXIS": ("-1", "-1"), "FILL": ("scores.masked_fill(mask == 0, 0.0)", FILLED)}),
    Pair("M3", "M8", "Layer", HEADS.replace("AXIS", "-1") + LAYER, {"CALL": ("x", "x, mask"), "FILL": (ZERO, FILLED)}),
    Pair("S7", "S4", "look", LOOK, {"TURN": ("k.T", "k.transpose(-2, -1)"), "ROOT": ("q.size(1)", "q.size(-1)")}),
    Pair("C1", "M8", "Cross", CROSS, {"FROM": ("x", "memory"), "LOW": ("0.0", "float('-inf')")}),
]


def checked(folder, pair: Pair, wrong: bool):
    text = pair.text
    for where, (bad, good) in pair.slips.items():
        text = text.replace(where, bad if wrong else good)
    path = folder / "file.py"
    path.write_text(textwrap.dedent(HEAD) + text)
    file = source.read(path)
    return doctor.check(file.load(pair.name), source=file, name=pair.name)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_mistake_behind_another_is_named_too(pair, tmp_path):
    both = checked(tmp_path, pair, True)
    assert {pair.first, pair.second} <= {one.id for one in both.findings}, both
    behind = next(one for one in both.findings if one.id == pair.second)
    assert behind.code and not behind.diff, "its patch was never tried in the file as it is"
    mended = checked(tmp_path, pair, False)
    assert mended.verdict in ("right", "partly"), mended


# Both factors of a root are multiplied; the patch turns one of them round, and no scale is left.
HALVED = """
class Look(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.q, self.kv, self.out = heads, nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        scale = (x.size(-1) // self.heads) ** 0.25
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(x), *self.kv(x).chunk(2, -1)))
        q = q * scale
        k = k * scale
        return self.out(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


def test_half_a_patch_is_no_mistake_of_the_person_s(tmp_path):
    [finding] = checked(tmp_path, Pair("S1", "", "Look", HALVED, {}), True).findings
    assert finding.id == "S1" and not finding.diff
