"""The oracle itself, against arithmetic done by hand or by another library."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from qkv import masks, steps
from qkv.attention import from_qkv
from qkv.attention.oracle import sinusoid, softmax
from qkv.i18n import Problem

rng = np.random.default_rng(0)


@given(
    batch=st.integers(1, 3),
    n_head=st.sampled_from([1, 2, 3]),
    n=st.integers(1, 6),
    m=st.integers(1, 6),
    cross=st.booleans(),
    scale=st.sampled_from([None, 1.0, 0.3]),
)
def test_equals_torch_projections_and_sdpa(batch, n_head, n, m, cross, scale):
    width = 6 * n_head
    x, memory = rng.normal(size=(batch, n, width)), rng.normal(size=(batch, m, width))
    w_q, w_k, w_v, w_o = rng.normal(size=(4, width, width))
    done = steps(x, w_q, w_k, w_v, w_o, n_head=n_head, scale=scale, memory=memory if cross else None)

    source = torch.from_numpy(memory if cross else x)

    def heads(t, w):
        return (t @ torch.from_numpy(w)).unflatten(-1, (n_head, -1)).transpose(1, 2)

    out = F.scaled_dot_product_attention(
        heads(torch.from_numpy(x), w_q), heads(source, w_k), heads(source, w_v), scale=scale
    )
    expected = out.transpose(1, 2).flatten(2) @ torch.from_numpy(w_o)
    np.testing.assert_allclose(done.output, expected.numpy(), atol=1e-12, rtol=1e-12)


def test_heads_read_their_own_slice_of_the_projection():
    x, (w_q, w_k, w_v) = rng.normal(size=(5, 12)), rng.normal(size=(3, 12, 12))
    whole = steps(x, w_q, w_k, w_v, n_head=3)
    for h in range(3):
        part = slice(4 * h, 4 * h + 4)
        head = steps(x, w_q[:, part], w_k[:, part], w_v[:, part])
        np.testing.assert_allclose(whole.heads[h], head.output, atol=1e-14)
        np.testing.assert_allclose(whole.output[:, part], head.output, atol=1e-14)


def test_three_steps_by_hand():
    done = steps([[1.0, 2.0], [3.0, 4.0]], scale=1)
    assert done.scores.tolist() == [[5, 11], [11, 25]]
    share = 1 / (1 + np.exp(-6))
    np.testing.assert_allclose(done.weights[0], [1 - share, share], atol=1e-15)
    np.testing.assert_allclose(done.output[0], [1 + 2 * share, 2 + 2 * share], atol=1e-14)


def test_softmax_keeps_huge_numbers_and_empty_rows():
    assert softmax(np.array([[1e308, 1e308], [-np.inf, -np.inf]])).tolist() == [[0.5, 0.5], [0, 0]]
    assert softmax(np.zeros((2, 0))).shape == (2, 0)


def test_sinks_take_a_share_and_give_nothing():
    done = from_qkv(np.zeros((1, 2, 1, 4)), np.zeros((1, 2, 3, 4)), np.ones((1, 2, 3, 4)), sinks=[0.0, np.log(3.0)])
    np.testing.assert_allclose(done.weights[0, :, 0], [[0.25] * 3, [1 / 6] * 3])


def test_softcap_is_before_the_bias():
    q = np.array([[2.0]])
    done = from_qkv(q, [[1.0], [3.0]], [[1.0], [0.0]], scale=1, bias=[[0.0, -1.0]], softcap=4.0)
    np.testing.assert_allclose(done.scaled, 4 * np.tanh(np.array([[2.0, 6.0]]) / 4) + [[0.0, -1.0]])
    text = done.show(lang="en")
    assert "2  scaled = 4·tanh((scores/√d)/4) + bias  (1, 2)" in text
    assert "between −4 and 4" in text and "the bias is added" in text
    plain = json.loads(done.to_json())
    assert plain["bias"] == [[0.0, -1.0]] and plain["softcap"] == 4.0


@pytest.mark.parametrize("softcap", [None, 3.0])
@pytest.mark.parametrize("shape", [(), (2,), (1, 2)], ids=str)
def test_minus_infinity_in_a_bias_hides_as_a_mask_does(shape, softcap):
    q, k, v = (rng.normal(size=(*shape, n, 4)) for n in (3, 5, 5))
    allowed = rng.random((3, 5)) < 0.5
    allowed[1] = False
    hidden = from_qkv(q, k, v, bias=np.where(allowed, 0.0, -np.inf), softcap=softcap)
    masked = from_qkv(q, k, v, allowed, softcap=softcap)
    for name in ("masked", "weights", "output"):
        assert np.array_equal(getattr(hidden, name), getattr(masked, name)), name
    assert (hidden.weights[..., 1, :] == 0).all() and (hidden.weights[..., ~allowed] == 0).all()
    assert None in json.loads(hidden.to_json())["bias"][1]


def test_a_bias_per_item_is_read_as_a_mask_per_item_is():
    q, k, v = (rng.normal(size=(2, n, 4)) for n in (3, 2, 2))
    bias = rng.normal(size=(2, 3, 2))
    whole = from_qkv(q, k, v, bias=bias)
    for item in range(2):
        np.testing.assert_allclose(whole.weights[item], from_qkv(q[item], k[item], v[item], bias=bias[item]).weights)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: steps(np.full((2, 2), 1e200)), "scores at (0, 0, 0, 0) is inf, beyond what float64 holds"),
        (lambda: steps([[1e308, 1e308]], [[1.0], [1.0]]), "q at (0, 0) is inf"),
        (lambda: steps([[1e160, -1e160]], scale=1e200), "scores at"),
        (lambda: steps([[1e100]], scale=1e200), "scaled at (0, 0, 0, 0) is inf"),
        (lambda: steps([[1.0]], w_o=[[1e308], [1e308]]), "w_o is (2, 1)"),
        (lambda: steps([[1.0]], scale=np.nan), "scale is nan: give a finite number"),
        (lambda: steps([[1.0]], scale=np.inf), "scale is inf"),
        (lambda: from_qkv(*[[[1.0]]] * 3, bias=[[np.nan]]), "bias holds nan at (0, 0)"),
        (lambda: from_qkv(*[[[1.0]]] * 3, bias=[[np.inf]]), "bias holds inf at (0, 0)"),
        (lambda: from_qkv(*[[[1.0]]] * 3, bias=[[1.0, 2.0]]), "bias is (1, 2) but scores are (1, 1, 1, 1)"),
        (lambda: from_qkv(*[[[1.0]]] * 3, softcap=0), "softcap is 0: give a positive number"),
        (lambda: from_qkv(*[[[1.0]]] * 3, softcap=np.nan), "softcap is nan"),
        (
            lambda: from_qkv(*[np.ones((1, 2, 1, 1))] * 3, sinks=[0.0]),
            "sinks are (1,): give one finite number per head",
        ),
        (lambda: from_qkv(*[[[1.0]]] * 3, sinks=[np.nan]), "sinks are [nan]"),
        (lambda: steps([[10**400]]), "x holds a number beyond what float64 holds"),
        (lambda: steps([[]]), "x is (1, 0): it needs at least one row and one column"),
        (lambda: from_qkv([[]], [[]], [[]]), "q is (1, 0)"),
        (lambda: steps([[1j]]), "x is not a matrix of numbers"),
        (lambda: steps([[1.0]], memory_names=["a"]), "memory_names were given without memory"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_the_oracle_refuses_nan(call, message):
    with pytest.raises(Problem) as error:
        call()
    assert message in str(error.value)
    assert any("\u4e00" <= c <= "\u9fff" for c in error.value.say("zh"))


def test_softmax_passes_nan_through():
    assert np.isnan(softmax(np.array([[np.nan, 1.0]]))).all()
    assert softmax(np.array([[-1e308, 1e308]])).tolist() == [[0, 1]]


def test_keeps_and_shows_the_inputs_of_q_k_and_v():
    x, memory, (w_q, w_k, w_v, w_o) = rng.normal(size=(2, 4)), rng.normal(size=(3, 4)), rng.normal(size=(4, 4, 4))
    done = steps(x, w_q, w_k, w_v, w_o, n_head=2, memory=memory, names=["a", "b"])
    plain = json.loads(done.to_json())
    arrays = {
        name: np.array(plain[name]) for name in ("x", "memory", "w_q", "w_k", "w_v", "w_o", "q", "k", "v", "output")
    }
    heads = {
        "q": arrays["x"] @ arrays["w_q"],
        "k": arrays["memory"] @ arrays["w_k"],
        "v": arrays["memory"] @ arrays["w_v"],
    }
    for name, whole in heads.items():
        np.testing.assert_allclose(arrays[name], whole.reshape(-1, 2, 2).swapaxes(0, 1))
    assert plain["shapes"]["memory"] == [3, 4]
    text = done.show(lang="en", head=1)
    titles = [
        "x  (2, 4)",
        "memory  (3, 4)",
        "W_q  (4, 4)  columns 2 to 3, those of head 1",
        "W_o  (4, 4)",
        "Q  (2, 2, 2)",
    ]
    offsets = [text.index(title) for title in titles]
    assert offsets[0] < offsets[1] < offsets[2] < offsets[4] < offsets[3]
    for value in [*x.ravel(), *memory.ravel(), *w_q[:, 2:].ravel(), *w_o.ravel(), *done.output.ravel()]:
        assert f"{value:.3f}".replace("-", "−") in text or abs(value) < 5e-4
    assert json.loads(from_qkv(x, x, x).to_json()).keys().isdisjoint({"x", "w_q", "w_o", "bias"})


def test_lists_the_matrices_that_are_missing():
    assert "Left out: W_q, W_k, W_v; so q = x, k = x, v = x." in steps(np.eye(2)).show(lang="en")
    cross = steps(np.eye(2), w_q=np.eye(2), memory=np.eye(2)).show(lang="en")
    assert "Left out: W_k, W_v; so k = memory, v = memory." in cross and "Two texts" in cross
    assert "没有给出 W_q、W_k、W_v，所以 q = x、k = x、v = x。" in steps(np.eye(2)).show(lang="zh")


def test_the_middle_of_a_long_matrix_is_omitted():
    text = steps(rng.normal(size=(3, 40)), *np.ones((3, 40, 2))).show()
    assert "…" in text[text.index("x  (3, 40)") : text.index("W_q  (40, 2)")] and len(text.splitlines()) < 110


def test_grouped_heads_interleave():
    q, k, v = rng.normal(size=(1, 4, 3, 2)), rng.normal(size=(1, 2, 3, 2)), rng.normal(size=(1, 2, 3, 2))
    whole = from_qkv(q, k, v)
    for head, group in enumerate([0, 0, 1, 1]):
        np.testing.assert_allclose(whole.heads[0, head], from_qkv(q[0, head], k[0, group], v[0, group]).output)


def test_a_masked_row_is_zero_and_labelled():
    done = steps(np.eye(3), mask=np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1]]) == 1, names=["a", "b", "c"])
    assert done.weights[1].tolist() == [0, 0, 0] and done.output[1].tolist() == [0, 0, 0]
    assert "b may attend to nothing" in done.show(lang="en") and "b 没有可以看的键" in done.show(lang="zh")


def test_a_range_is_printed_only_where_the_row_sums_differ():
    dead = np.array([[True, False, False], [False] * 3, [True] * 3])
    two, three = np.zeros((1, 1, 2, 4)), np.zeros((1, 1, 3, 4))
    for done, english, chinese in (
        (steps(np.eye(3)), "Every row sums to 1.", "每行之和都是 1。"),
        (steps(np.eye(3), mask=dead), "Row sums: 0 to 1.", "每行之和在 0 到 1 之间。"),
        (from_qkv(two, three, three, sinks=[0.0]), "Every row sums to 0.75.", "每行之和都是 0.75。"),
    ):
        assert english in done.show(lang="en") and chinese in done.show(lang="zh")


def test_prints_every_number_it_computed():
    done = steps(rng.normal(size=(3, 4)), mask=masks.causal(), names=["我", "爱", "你"])
    text = done.show(lang="zh")
    for table in (done.scores, done.scaled, done.weights, done.output):
        for value in table.ravel():
            assert f"{value:.3f}".replace("-", "−") in text or abs(value) < 5e-4
    assert "−∞" in text and "(3, 3)" in text


def test_word_is_the_sum_of_its_terms():
    done = steps(rng.normal(size=(3, 2)), names=["a", "b", "c"])
    last = done.word(2, lang="en").splitlines()[-1].replace("−", "-").split()
    assert last[0] == "sum" and [float(x) for x in last[2:]] == pytest.approx(done.output[2].tolist(), abs=5e-4)


def test_json_has_no_infinity_and_all_shapes():
    plain = json.loads(steps(np.eye(2), mask=masks.causal()).to_json())
    assert plain["masked"][0][1] is None and plain["shapes"]["weights"] == [2, 2]
    assert plain["weights"][0] == [1.0, 0.0]


def test_sinusoid_table():
    table = sinusoid(50, 6)
    np.testing.assert_allclose(table[:, 0::2] ** 2 + table[:, 1::2] ** 2, 1.0)
    assert table[7, 2] == pytest.approx(np.sin(7 / 10000 ** (2 / 6)))
    np.testing.assert_allclose(sinusoid(3, 5, offset=4), sinusoid(7, 5)[4:])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: steps(np.eye(3), np.ones((4, 2))), "w_q is (4, 2) but the vectors are 3 wide"),
        (lambda: steps(np.eye(3), n_head=2), "doesn't divide into 2 heads"),
        (lambda: steps([[1, 2], [3]]), "rows of equal length"),
        (lambda: steps([1.0, 2.0]), "x has 1 axes"),
        (lambda: steps([[np.nan, 1.0]]), "x holds nan at (0, 0)"),
        (lambda: from_qkv(np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 3))), "q is 3 wide but k is 4"),
        (lambda: from_qkv(np.ones((2, 3)), np.ones((4, 3)), np.ones((5, 3))), "4 keys but 5 values"),
        (lambda: from_qkv(np.ones((2, 2, 3)), np.ones((1, 2, 3)), np.ones((1, 2, 3))), "batches differ"),
        (lambda: from_qkv(np.ones((1, 3, 2, 2)), np.ones((1, 2, 2, 2)), np.ones((1, 2, 2, 2))), "3 query heads"),
        (lambda: from_qkv(np.ones((2, 3)), np.ones((1, 2, 3)), np.ones((2, 3))), "same number of axes"),
        (lambda: steps(np.eye(3), mask=np.ones((3, 3))), "True (may attend) and False"),
        (lambda: steps(np.eye(3), mask=np.ones((2, 3)) == 1), "mask is (2, 3) but scores are (1, 1, 3, 3)"),
        (lambda: steps(np.eye(3), names=["a"]), "1 names were given for 3 tokens"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_mistakes_are_refused(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)
