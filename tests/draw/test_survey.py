"""Heads made by hand have looks of the kind they were made for, and layers that differ come before layers that are alike."""

import numpy as np
import pytest
import torch

from qkv import masks
from qkv.attention.attend import Call
from qkv.draw import carry as carrying
from qkv.draw.carry import LINKED, _order, carry
from qkv.draw.survey import KINDS, in_turn, look
from qkv.tracing.tokens import Tokens
from qkv.tracing.trace import Trace

N = 24
WORDS = [f"w{i % 8}" if i < 16 else f"x{i}" for i in range(N)]  # two times the same eight words, then others


def towards(where):
    """Weights (N, N) of a head whose queries look at the key that `where` names, else at the first token."""
    table = np.zeros((N, N))
    for i in range(N):
        j = where(i)
        table[i, j if 0 <= j <= i else 0] = 1
    return table


HEADS = {
    "beside": towards(lambda i: i - 1),
    "near": towards(lambda i: i - 3),
    "far": towards(lambda i: i - 5),
    "repeat": towards(lambda i: i - 8 if i < 16 else 0),
    "follows": towards(lambda i: i - 7 if i < 16 else 0),
}


def made(*layers, part="decoder"):
    """A trace whose layers have these heads, one head each; their weights are written into the bias."""
    q = torch.zeros(1, 1, N, 4)
    calls = [
        Call(q, q, q, masks.causal(), 1.0, torch.as_tensor(table).clamp(min=1e-9).log().float()[None, None])
        for table in layers
    ]
    tokens = [Tokens(tuple(WORDS))]
    return Trace({part: calls}, {part: tokens}, {part: tokens})


@pytest.mark.parametrize("name", HEADS)
def test_a_head_looks_as_it_was_made(name):
    kind = "repeat" if name == "follows" else name
    ((((one,),),)) = look(made(HEADS[name]), "decoder", 8, lambda: None)
    told = one.looks
    assert set(told) == set(KINDS)
    assert max(told, key=told.get) == kind and told[kind] > 0.25
    assert sum(share for other, share in told.items() if other != kind) < 0.15
    # What a head gives to the first token is no look at all.
    real = sum(HEADS[name][i, 1:i].sum() for i in range(N)) / N
    assert sum(told.values()) == pytest.approx(real, abs=1e-4)


def test_looks_into_the_other_text_are_of_one_kind():
    ((((one,),),)) = look(made(HEADS["far"], part="cross"), "cross", 8, lambda: None)
    assert [kind for kind, share in one.looks.items() if share] == ["cross"]


def test_kinds_take_turns():
    found = {
        ("decoder", 0): {"beside": 0.95},
        ("decoder", 1): {"beside": 0.99, "near": 0.3},
        ("decoder", 2): {"beside": 0.9},
        ("decoder", 3): {"far": 0.2, "near": 0.1},
        ("decoder", 4): {"beside": 0.6, "repeat": 0.4},
        ("decoder", 5): {"far": 0.04},  # too faint to be named for it
        ("cross", 0): {"cross": 0.5},
        ("cross", 1): {"cross": 0.7},
    }
    order = in_turn(found)
    # repeat, far, near, beside, cross; then beside and cross again, and at last what nobody names.
    assert [f"{part[0]}{layer}" for part, layer in order] == ["d4", "d3", "d1", "d0", "c1", "d2", "c0", "d5"]


def test_layers_asked_for_come_first_then_linked_ones():
    looks = {("decoder", i): {"beside": 0.9 - i / 10} for i in range(4)}
    assert [layer for _, layer in _order([3], [("decoder", 2)], looks)] == [3, 2, 0, 1]


def test_a_page_carries_layers_that_differ(monkeypatch):
    """Four layers that look beside them, and one of each other kind: with room for four, one of each is carried."""
    names = ["beside", "beside", "near", "beside", "far", "beside", "repeat"]
    found = made(*(HEADS[name] for name in names))
    chosen = []
    monkeypatch.setattr(carrying, "_tensors", lambda trace, carried, order: chosen.append([at[1] for at in order]))
    carry(found, 10**7)
    carry(found, 10**7, focus=(20, 17))
    carry(found, 10**7, layers=[3], focus=(20, 17))
    assert {names[layer] for layer in chosen[0][:4]} == {"beside", "near", "far", "repeat"}
    assert chosen[1][0] == 2 and found.find(20, 17)[0][2] > LINKED  # three back: the layer that looks near
    assert chosen[2][:2] == [3, 2]
    assert all(sorted(order) == list(range(7)) for order in chosen)
