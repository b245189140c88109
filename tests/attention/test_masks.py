"""A mask means the same however it is asked: whole, in part, by NumPy, by torch, written out, combined."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right

from qkv import masks

from .cases import cases


def loop(rule, batch, heads, n, m):
    """The mask by its definition, one pair at a time."""
    return np.array(
        [
            [[[rule(b, h, i, j, i + m - n) for j in range(m)] for i in range(n)] for h in range(heads)]
            for b in range(batch)
        ]
    )


BY_DEFINITION = {
    "full": (masks.full(), lambda b, h, i, j, p: True),
    "causal": (masks.causal(), lambda b, h, i, j, p: j <= p),
    "window(2, 1)": (masks.window(2, 1), lambda b, h, i, j, p: p - 2 <= j <= p + 1),
    "window(0, 0)": (masks.window(0, 0), lambda b, h, i, j, p: j == p),
    "window(None, 1)": (masks.window(None, 1), lambda b, h, i, j, p: j <= p + 1),
    "window(1, None)": (masks.window(1, None), lambda b, h, i, j, p: j >= p - 1),
    "lengths": (masks.padding([2, 0]), lambda b, h, i, j, p: j < (2, 0)[b]),
    "prefix": (masks.prefix(3), lambda b, h, i, j, p: j < 3 or j <= p),
    "prefixes": (masks.prefix([1, 4]), lambda b, h, i, j, p: j < (1, 4)[b] or j <= p),
    "documents": (
        masks.documents([[0, 0, 1, 1, 1], [0, 1, 1, 2, 2]]),
        lambda b, h, i, j, p: (
            p >= 0 and ((0, 0, 1, 1, 1), (0, 1, 1, 2, 2))[b][p] == ((0, 0, 1, 1, 1), (0, 1, 1, 2, 2))[b][j]
        ),
    ),
    "cross": (masks.cross([3, 5], [1, 2]), lambda b, h, i, j, p: j < (3, 5)[b] and i < (1, 2)[b]),
    "not": (~masks.causal(), lambda b, h, i, j, p: j > p),
    "and": (masks.causal() & masks.padding([2, 4]), lambda b, h, i, j, p: j <= p and j < (2, 4)[b]),
    "or": (masks.window(0, 0) | masks.padding([2, 4]), lambda b, h, i, j, p: j == p or j < (2, 4)[b]),
}


@pytest.mark.parametrize("n", [2, 5, 7])
@pytest.mark.parametrize("name", BY_DEFINITION)
def test_every_mask_is_its_definition(name, n):
    mask, rule = BY_DEFINITION[name]
    expected = loop(rule, 2, 3, n, 5)
    np.testing.assert_array_equal(np.broadcast_to(mask.array(n, 5, batch=2, heads=3), expected.shape), expected)


def test_causal_is_torchs_lower_right():
    for n, m in [(3, 3), (2, 5), (5, 2)]:
        theirs = causal_lower_right(n, m)._materialize()
        assert torch.equal(masks.causal().tensor(n, m)[0, 0], theirs)


@given(cases(), st.data())
def test_any_rectangle_is_the_slice_of_the_whole(case, data):
    (batch, heads, n, _), m = case.q.shape, case.k.shape[2]
    whole = np.broadcast_to(case.mask.array(n, m, batch=batch, heads=heads), (batch, heads, n, m))
    top, first = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    rows, cols = slice(top, data.draw(st.integers(top, n))), slice(first, data.draw(st.integers(first, m)))
    part = case.mask.array(n, m, batch=batch, heads=heads, rows=rows, cols=cols)
    np.testing.assert_array_equal(np.broadcast_to(part, whole[:, :, rows, cols].shape), whole[:, :, rows, cols])
    picked = case.mask.array(n, m, batch=batch, heads=heads, rows=[n - 1, 0])
    np.testing.assert_array_equal(np.broadcast_to(picked, (batch, heads, 2, m)), whole[:, :, [n - 1, 0]])


@given(cases())
def test_torch_numpy_and_additive_agree(case):
    (batch, heads, n, _), m = case.q.shape, case.k.shape[2]
    allowed = case.mask.array(n, m, batch=batch, heads=heads)
    tensor = case.mask.tensor(n, m, batch=batch, heads=heads)
    np.testing.assert_array_equal(tensor.numpy(), allowed)
    added = case.mask.additive(n, m, batch=batch, heads=heads)
    np.testing.assert_array_equal((added == 0).numpy(), allowed)
    assert masks.from_additive(added) == masks.dense(tensor)


@given(cases(), cases())
def test_equality_is_of_meaning_as_written(case, other):
    assert case.mask == case.mask and ~~case.mask == case.mask
    assert (case.mask & masks.full()) == case.mask and (case.mask | masks.full()) == masks.full()
    assert (case.mask & other.mask) == (other.mask & case.mask)
    assert hash(case.mask & other.mask) == hash(other.mask & case.mask)


def test_different_masks_are_not_equal():
    assert masks.causal() != masks.window(3)
    assert masks.padding([1, 2]) != masks.padding([2, 1])
    assert masks.dense(torch.ones(2, 2, dtype=torch.bool)) != masks.dense(torch.zeros(2, 2, dtype=torch.bool))
    assert masks.causal() & masks.padding([2]) != masks.causal() | masks.padding([2])


def test_repr_is_the_call_that_makes_it():
    assert repr(masks.causal() & ~masks.window(2, 1)) == "causal() & ~window(2, 1)"
    assert (
        repr((masks.causal() | masks.prefix(3)) & masks.padding([2, 4])) == "(causal() | prefix(3)) & padding([2, 4])"
    )
    assert eval(repr(masks.causal() & masks.window(4, 0)), vars(masks)) == masks.causal() & masks.window(4)


def test_draws_itself():
    assert str(masks.padding([1, 2])) == "■ ·\n■ ·\n\n■ ■\n■ ■"
    assert masks.causal().draw(2, 3) == "■ ■ ·\n■ ■ ■"
    big = masks.causal().draw(100, most=10).split("\n")
    assert len(big) == 10 and big[0].startswith("▒") and big[9].startswith("■") and big[0].endswith("·")


def test_every_mask_prints():
    assert str(masks.prefix([1, 2])).count("\n\n") == 1
    assert str(masks.dense(np.ones((2, 3, 4, 5), dtype=bool))).count("\n\n") == 5
    assert str(masks.causal().placed(torch.tensor([[2, 3]]))) == "■ ■ ■ ·\n■ ■ ■ ■"
    assert str(masks.documents([0, 0, 1]) & masks.padding([1, 2])).split("\n")[0] == "■ · ·"


def test_rows_count_from_the_end_too():
    np.testing.assert_array_equal(masks.causal().array(4, rows=[-1]), masks.causal().array(4, rows=[3]))
    with pytest.raises(ValueError, match="no row or column 9 of 4"):
        masks.causal().array(4, rows=[9])


def test_negative_lengths_hide_everything():
    assert not masks.padding([-1]).array(3).any()


def test_float_key_padding_of_torch():
    floats = torch.tensor([[0.0, 0.0, -torch.inf]])
    np.testing.assert_array_equal(masks.from_torch_mha(key_padding_mask=floats).array(3), masks.padding([2]).array(3))


def test_reads_torchs_own_masks():
    blocked = torch.ones(4, 4, dtype=torch.bool).triu(1)
    padded = torch.tensor([[False, False, True, True], [False, False, False, False]])
    ours = masks.from_torch_mha(blocked, padded)
    expected = (masks.causal() & masks.padding([2, 4])).array(4, batch=2)
    np.testing.assert_array_equal(ours.array(4, batch=2), expected)
    added = torch.zeros(4, 4).masked_fill(blocked, float("-inf"))
    np.testing.assert_array_equal(masks.from_torch_mha(added).array(4), masks.causal().array(4))
    per_head = blocked.expand(6, 4, 4)
    assert masks.from_torch_mha(per_head, n_head=3).array(4, batch=2, heads=3).shape == (2, 3, 4, 4)


def test_parses_words():
    assert masks.parse("causal & window:2,1|prefix:3") == (masks.causal() & masks.window(2, 1)) | masks.prefix(3)
    assert masks.parse("~documents:0,0,1") == ~masks.documents([0, 0, 1])


def test_placed_is_the_rule_at_those_positions():
    whole = masks.causal() & masks.window(3)
    placed = whole.placed(torch.tensor([[2, 3], [5, 6]]))
    expected = whole.array(7)[0, 0]
    np.testing.assert_array_equal(placed.array(2, 7, batch=2)[:, 0], expected[[[2, 3], [5, 6]]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: masks.dense(torch.ones(2, 2)), "if it holds 0 and −inf, masks.from_additive"),
        (lambda: masks.dense(np.ones((2, 2), dtype=int)), "write mask == 1"),
        (lambda: masks.dense(torch.ones(2, dtype=torch.bool)), "give (N, M)"),
        (lambda: masks.padding([[1, 0], [1, 1]]), "write mask == 1"),
        (lambda: masks.padding([0.5]), "whole numbers"),
        (lambda: masks.padding([1, 2]).array(3, batch=3), "given for 2 items but the batch has 3"),
        (lambda: masks.padding(np.ones((2, 5)) == 1).array(6, batch=2), "mask is (2, 5) but keys are (2, 6)"),
        (lambda: masks.window(-1), "0 or more"),
        (lambda: masks.window(2.5), "0 or more"),
        (lambda: masks.from_torch_mha(key_padding_mask=torch.tensor([[1, 0]])), "True means padding"),
        (lambda: masks.from_torch_mha(key_padding_mask=torch.tensor([[1.0, 0.0]])), "0 (real) and −inf"),
        (lambda: masks.documents([0, 1]).array(3), "one document number per key"),
        (lambda: masks.from_additive(torch.tensor([[0.0, -2.0]])), "that is a bias"),
        (lambda: masks.parse("casual"), "Did you mean causal?"),
        (lambda: masks.parse("window"), "write window:LEFT"),
        (lambda: masks.parse("window:x"), "is not a valid mask"),
        (lambda: masks.from_torch_mha(torch.ones(6, 2, 2, dtype=torch.bool)), "give n_head"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_mistakes_are_refused(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)


def test_combining_with_something_else_is_refused():
    with pytest.raises(TypeError, match=r"masks\.dense"):
        masks.causal() & torch.ones(2, 2, dtype=torch.bool)
