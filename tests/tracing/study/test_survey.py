"""Heads made by hand have looks of the kind they were made for, and layers that differ come before layers that are alike."""

import numpy as np
import pytest
import torch

from qkv import masks
from qkv.attention.dispatch import Call
from qkv.draw import page_data
from qkv.draw.page_data import LINK_SHARE, _layer_order, build_page_data
from qkv.mixers import mixer_maps as mixing
from qkv.mixers.calls import Mixing
from qkv.tracing.study.survey import KINDS, in_turn
from qkv.tracing.views import layer_scan
from qkv.tracing.views.token_labels import Tokens
from qkv.tracing.views.traces import Trace

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


def trace_of(*layers, part="decoder"):
    """A trace whose layers have these heads, one head each; their weights are written into the bias."""
    q = torch.zeros(1, 1, N, 4)
    calls = [
        Call(q, q, q, masks.causal(), 1.0, torch.as_tensor(table).clamp(min=1e-9).log().float()[None, None])
        for table in layers
    ]
    tokens = [Tokens(tuple(WORDS))]
    return Trace({part: calls}, {part: tokens}, {part: tokens})


@pytest.mark.parametrize("name", HEADS)
def test_a_head_has_looks_of_its_kind(name):
    kind = "repeat" if name == "follows" else name
    look = trace_of(HEADS[name]).survey().heads[0][0][0]
    kinds = look.looks
    assert set(kinds) == set(KINDS)
    assert max(kinds, key=kinds.get) == kind and kinds[kind] > 0.25
    assert sum(share for other, share in kinds.items() if other != kind) < 0.15
    # What a head gives to the first token is no look at all.
    real = sum(HEADS[name][i, 1:i].sum() for i in range(N)) / N
    assert sum(kinds.values()) == pytest.approx(real, abs=1e-4)


def test_looks_into_the_other_text_have_their_own_kind():
    look = trace_of(HEADS["far"], part="cross").survey().heads[0][0][0]
    assert [kind for kind, share in look.looks.items() if share] == ["cross"]


def random(
    *, n=150, m=None, heads=4, groups=2, batch=2, part="decoder", special=(), whole=(), dtype=torch.float32, **call
):
    """A trace of one layer, q and k at random, sharp enough to have links."""
    rng, m = torch.Generator().manual_seed(1), n if m is None else m
    mask = call.pop("mask", masks.causal())
    q, k = (2 * torch.randn(batch, h, size, 8, generator=rng, dtype=dtype) for h, size in ((heads, n), (groups, m)))
    calls = [Call(q, k, k, mask, call.pop("scale", 8**-0.5), **call)]
    sides = [
        [Tokens(tuple(f" w{i}" for i in range(size)), tuple(i in special for i in range(size)), whole=whole)] * batch
        for size in (n, m)
    ]
    return Trace({part: calls}, {part: sides[0]}, {part: sides[1]})


def bias(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2))


SHAPES = {
    "causal": {},
    "full": dict(mask=masks.full()),
    "window": dict(mask=masks.window(9, 3)),
    "window beyond the text": dict(mask=masks.window(400, 400)),
    "more queries than keys": dict(mask=masks.window(2, 0), n=20, m=5),
    "padded": dict(mask=masks.padding([150, 31]) & masks.causal()),
    "padded to nothing": dict(mask=masks.padding([0, 1])),
    "heads apart": dict(mask=masks.dense(bias(1, 4, 150, 150) > 0.5)),
    "cached": dict(n=40),
    "softcap": dict(softcap=2.0),
    "sinks": dict(sinks=torch.tensor([0.5, -1.0, 3.0, 0.0])),
    "sinks alone": dict(mask=masks.padding([0, 3]), sinks=torch.tensor([0.5, -1.0, 3.0, 0.0])),
    "bias": dict(bias=bias(1, 4, 150, 150)),
    "bias of keys": dict(bias=bias(1, 4, 1, 150)),
    "bias that hides": dict(bias=bias(150, 150).masked_fill(bias(150, 150) > 0.5, float("-inf")).fill_diagonal_(0)),
    "special": dict(special=(0, 3, 77, 149)),
    "cross": dict(part="cross", n=30, m=130, mask=masks.full(), special=(0, 29)),
    "short": dict(n=9),
    "one token": dict(n=1),
    "65 tokens": dict(n=65),
    "one key head": dict(groups=1, heads=3),
    "float64": dict(dtype=torch.float64),
}


METHODS = {
    "one block": dict(BLOCK=1 << 20, LARGE=1 << 40),
    "blocks of a few rows": dict(BLOCK=500, LARGE=1 << 40),
    "one tile": dict(LARGE=0),
    "tiles of a few rows and keys": dict(LARGE=0, TILE=(20, 40), GROUP=3),
    "tiles of one cell": dict(LARGE=0, TILE=(1, 1), GROUP=1),
}


TINY = "tiles of one cell"  # thousands of them
EVERY = [(name, method) for name in SHAPES for method in METHODS]


@pytest.mark.parametrize(
    "name, method",
    [
        pytest.param(*each, marks=[pytest.mark.slow] if each[1] == TINY and each[0] not in ("causal", "short") else [])
        for each in EVERY
    ],
)
def test_a_single_pass_equals_the_exact_maps(name, method, monkeypatch):
    """The picture is the map's largest weights, the link its largest entry, telling the largest away from neighbours."""
    for what, value in METHODS[method].items():
        monkeypatch.setattr(layer_scan, what, value)
    shape = dict(SHAPES[name])
    if name == "cached":
        shape["m"] = 150
    recorded = random(**shape)
    part = recorded.parts[0]
    looked = recorded.survey()
    for item in range(2):
        special_queries, special_keys = (
            np.array(recorded.tokens(part, item, keys=side).special) for side in (False, True)
        )
        for head, look in enumerate(looked.heads[item][0]):
            table = recorded.map(0, head, part=part, batch=item)
            pooled = recorded.map(0, head, bins=64, pool="max", part=part, batch=item)
            assert look.picture.shape == pooled.shape
            assert np.abs(look.picture / 255 - np.sqrt(pooled)).max() <= 0.5 / 255 + 1e-5
            shares = table[~special_queries].astype(float)
            shares /= shares.sum(1, keepdims=True).clip(1e-30)  # what a sink leaves
            spread = -(shares * np.log(shares.clip(1e-30))).sum(1)
            assert look.entropy == pytest.approx(spread.mean() if len(spread) else 0, abs=2e-5)
            if look.left is not None:  # by tiles alone
                linkable = table.astype(float)[
                    :, ~special_keys & (np.arange(len(special_keys)) > 0) if part != "cross" else ~special_keys
                ].sum(1)
                is_finite = ~np.isnan(look.left.numpy())
                assert (
                    np.abs(look.left.numpy() - linkable)[is_finite].max(initial=0) < 1e-5
                    and not linkable[~is_finite].any()
                )
            table = table * ~special_queries[:, None] * ~special_keys
            position, key = (np.arange(size) + table.shape[1] - size for size in table.shape)
            if part != "cross":
                table = table * (key > 0) * (position[:, None] != key)
            if table.max() <= 1e-4:
                assert look.link is None
            else:
                i, j, share = look.link
                assert share == pytest.approx(table.max(), abs=1e-5) and table[i, j] == pytest.approx(share, abs=1e-5)
            assert sum(look.looks.values()) == pytest.approx(table.max(1).mean(), abs=1e-5)
            far = table.max(initial=0, where=abs(position[:, None] - key) > 1)
            assert look.telling == pytest.approx(table.max(1).mean() if part == "cross" else far, abs=1e-5)


def test_neighbours_are_characters_not_their_bytes():
    """Twelve tokens that are four characters: a token's neighbours are all bytes of the characters beside its own."""
    whole = tuple((sign, 3 * i, 3 * i + 3) for i, sign in enumerate("我爱北京"))
    recorded = random(n=12, whole=whole)
    for head, look in enumerate(recorded.survey().heads[0][0]):
        table, group = recorded.map(0, head), np.arange(12) // 3
        far = table.max(initial=0, where=(abs(group[:, None] - group) > 1) & (np.arange(12) > 0))
        assert look.telling == pytest.approx(far, abs=1e-6)


def test_every_head_is_looked_at_once(monkeypatch):
    """Choosing a head and writing its page use one survey: no map is computed twice."""
    recorded = trace_of(HEADS["far"], HEADS["near"])
    reports, blocks = [], []
    whole = layer_scan.attention_maps.shares
    monkeypatch.setattr(layer_scan.attention_maps, "shares", lambda *at: blocks.append(at) or whole(*at))
    assert recorded.survey("decoder", lambda *at: reports.append(at)).most_telling(range(2), [0]) == (0, 0)
    build_page_data(recorded, 10**7)
    assert len(blocks) == 2 and reports == [(1, 2), (2, 2)]


def test_kinds_take_turns():
    looks = {
        ("decoder", 0): {"beside": 0.95},
        ("decoder", 1): {"beside": 0.99, "near": 0.3},
        ("decoder", 2): {"beside": 0.9},
        ("decoder", 3): {"far": 0.2, "near": 0.1},
        ("decoder", 4): {"beside": 0.6, "repeat": 0.4},
        ("decoder", 5): {"far": 0.04},  # too faint to be named for it
        ("cross", 0): {"cross": 0.5},
        ("cross", 1): {"cross": 0.7},
    }
    order = in_turn(looks)
    # repeat, far, near, beside, cross; then beside and cross again, and at last what nobody names.
    assert [f"{part[0]}{layer}" for part, layer in order] == ["d4", "d3", "d1", "d0", "c1", "d2", "c0", "d5"]


def test_requested_layers_come_first_then_linked_layers():
    looks = {("decoder", i): {"beside": 0.9 - i / 10} for i in range(4)}
    assert [layer for _, layer in _layer_order([3], [("decoder", 2)], looks)] == [3, 2, 0, 1]


def test_a_page_carries_layers_that_differ(monkeypatch):
    """Four layers that look beside them, and one of each other kind: with room for four, one of each is carried."""
    names = ["beside", "beside", "near", "beside", "far", "beside", "repeat"]
    recorded = trace_of(*(HEADS[name] for name in names))
    orders = []
    monkeypatch.setattr(page_data, "_add_tensors", lambda trace, carried, order: orders.append([at[1] for at in order]))
    build_page_data(recorded, 10**7)
    build_page_data(recorded, 10**7, focus=(20, 17))
    build_page_data(recorded, 10**7, layers=[3], focus=(20, 17))
    assert {names[layer] for layer in orders[0][:4]} == {"beside", "near", "far", "repeat"}
    assert orders[1][0] == 2 and recorded.find(20, 17)[0][2] > LINK_SHARE  # three back: the layer that looks near
    assert orders[2][:2] == [3, 2]
    assert all(sorted(order) == list(range(7)) for order in orders)


@pytest.mark.parametrize("tile", [512, 7], ids=["one tile", "tiles of a few rows"])
@pytest.mark.parametrize("n", [1, 40, 150])
@pytest.mark.parametrize("delta", [False, True])
def test_a_single_pass_over_a_mixer_equals_the_exact_maps(delta, n, tile, monkeypatch):
    """By size, with the sign: the picture is the map's largest weights, the link its largest of other tokens, the looks'
    kinds are shares of a row's sizes."""
    monkeypatch.setattr(mixing, "TILE", (tile, tile + 2))
    monkeypatch.setattr(mixing, "ROWS", tile)
    rng = torch.Generator().manual_seed(3)
    q, v = (torch.randn(2, heads, n, 4, generator=rng) for heads in (1, 2))
    k = torch.nn.functional.normalize(torch.randn(2, 1, n, 4, generator=rng), dim=-1)
    decay, write = -torch.rand(2, 2, n, generator=rng) / 9, torch.rand(2, 2, n, generator=rng)
    resets = torch.arange(n).expand(2, n) == n // 2
    call = Mixing(q, k, v, decay, 0.5, write if delta else None, resets=resets)
    side = {"mixers": [Tokens(tuple(f" w{i % 30}" for i in range(n)), tuple(i == 3 for i in range(n)))] * 2}
    recorded, reports = Trace({"mixers": [call]}, side, side), []
    looked = recorded.survey("mixers", lambda *at: reports.append(at))
    assert reports == [(i, 4) for i in (1, 2, 3, 4)]
    for item in range(2):
        for head in range(2):
            look, table = looked.heads[item][0][head], recorded.map(0, head, batch=item)
            cells = recorded.map(0, head, batch=item, bins=64, pool="max")
            assert look.top == pytest.approx(np.abs(table).max(), rel=1e-5)
            shades = (look.picture.astype(float) - 128) / 127
            assert np.abs(np.sign(shades) * shades**2 * look.top - cells).max() <= look.top / 120
            total, other = np.abs(table).sum(1), table.copy()
            shares = np.delete(np.abs(table) / total[:, None], 3, 0) if n > 3 else np.abs(table) / total[:, None]
            spread = -(shares * np.log(shares.clip(1e-30))).sum(1).mean()
            assert look.entropy == pytest.approx(spread, abs=1e-4)
            other[:, 3:4] = other[3:4] = 0
            np.fill_diagonal(other, 0)
            if n == 1:
                assert look.link is None
                continue
            i, j, weight = look.link
            assert (i, j) == np.unravel_index(np.abs(other).argmax(), other.shape)
            assert weight == pytest.approx(other[i, j], rel=1e-4)
            assert sum(look.looks.values()) == pytest.approx((np.abs(other).max(1) / total).sum() / n, abs=1e-5)
            far = np.abs(np.tril(cells, -2)).sum() / np.abs(cells).sum()
            assert look.telling == pytest.approx(far, abs=1e-5)
