"""The door: which form it takes and says so, who may listen and change, and what it refuses with a sentence."""

import pytest
import torch
from hypothesis import given

from qkv import record
from qkv.attention import replace_weights
from qkv.i18n import Problem
from qkv.mixers import explain, mix

from .cases import cases, close

X = torch.ones(1, 1, 3, 2)
NO_DECAY = torch.zeros(1)


@pytest.mark.parametrize(
    "n, options, english, chinese",
    [
        (
            1,
            {},
            "recurrent: one token, which costs the same after any text.",
            "recurrent：只有一个词元，前文再长花费也一样。",
        ),
        (5, {}, "parallel: 5 tokens fit into one chunk of 64.", "parallel：5 个词元装得进一块（64 个）。"),
        (
            70,
            {},
            "chunkwise: 70 tokens in 2 chunks of 64, a state of 2×2 per head between them.",
            "chunkwise：70 个词元分成 2 块，每块 64 个，块与块之间每个头传一个 2×2 的状态。",
        ),
        (
            5,
            {"form": "recurrent"},
            "recurrent: it was asked for: 5 tokens one after the other.",
            "recurrent：按要求，5 个词元一个接一个。",
        ),
        (
            70,
            {"form": "parallel"},
            "parallel: it was asked for: one table of 70×70 per head.",
            "parallel：按要求，每个头一张 70×70 的表。",
        ),
    ],
)
def test_explain_names_the_form_and_the_reason(n, options, english, chinese, monkeypatch):
    q = torch.ones(1, 1, n, 2)
    for lang, message in (("en", english), ("zh", chinese)):
        monkeypatch.setenv("QKV_LANG", lang)
        assert explain(q, q, q, NO_DECAY, **options) == message


@given(case=cases())
def test_recorders_get_what_the_output_follows_from(case):
    with record() as calls:
        output, _ = case.mix(name="decoder.3")
    (call,) = calls
    assert call.name == "decoder.3" and call.n_head == case.v.shape[1]
    before = call.carried()
    close(call.weights() @ call.v + (0 if before is None else before), output)
    assert call.q.data_ptr() == case.q.data_ptr()  # a reference


@given(case=cases())
def test_a_head_can_be_switched_off_or_scaled(case):
    """With what the state gives it, if one came before; the other heads stay as they are."""
    output, state = case.mix(name="a")
    last = case.v.shape[1] - 1
    with replace_weights(lambda w: w * 0.5, name="a", heads=[last]), replace_weights(torch.zeros_like, name="b"):
        halved, same = case.mix(name="a")
    close(halved[:, last], output[:, last] * 0.5)
    close(halved[:, :last], output[:, :last])
    close(same, state)
    with replace_weights(torch.zeros_like):
        assert not case.mix()[0].any()
    with replace_weights(lambda w: w, name="a"):
        close(case.mix(name="a")[0], output)


def test_edits_get_the_call_and_gradients_pass():
    q = torch.randn(1, 1, 3, 2, requires_grad=True)
    with replace_weights(lambda w, call: w * call.allowed(), with_call=True):
        mix(q, X, X, NO_DECAY, state=torch.ones(1, 1, 2, 2))[0].sum().backward()
    assert q.grad.abs().sum() > 0


BAD = {
    "q": (dict(q=X.int()), "q is torch.int32: mix takes torch tensors of floats"),
    "list": (dict(v=[1.0]), "v is list: mix takes torch tensors of floats"),
    "axes": (dict(v=X[0]), "v is (1, 3, 2): it needs four axes (batch, heads, tokens, head width)"),
    "tokens": (dict(v=X[:, :, :2]), "with v's batch and tokens"),
    "groups": (
        dict(v=torch.ones(1, 3, 3, 2), q=torch.ones(1, 2, 3, 2), k=torch.ones(1, 2, 3, 2)),
        "a multiple of the groups",
    ),
    "dtype": (dict(v=X.double()), "convert all three to one dtype"),
    "γ": (dict(decay=torch.tensor([0.9])), "decay holds 0.9 at (0, 0, 0): it is log γ of a γ above 0 and up to 1"),
    "γ = 0": (dict(decay=torch.tensor([0.0]).log()), "decay holds -inf at (0, 0, 0)"),
    "NaN": (dict(decay=torch.tensor([float("nan")])), "decay holds nan"),
    "per head": (dict(decay=torch.zeros(3)), "decay is (3,): give one number per head, (1,), or per token, (1, 1, 3)"),
    "write": (dict(write=torch.ones(2, 2)), "write is (2, 2): give one number per head"),
    "state": (dict(state=torch.ones(1, 1, 2, 3)), "state is (1, 1, 2, 3): it needs (1, 1, 2, 2)"),
    "keep": (dict(keep=torch.ones(1, 2, dtype=torch.bool)), "keep is (1, 2): give one value per token, (1, 3)"),
    "keep's kind": (dict(keep=torch.ones(1, 3)), "keep is torch.float32: give True for a real token"),
    "form": (
        dict(form="chunked"),
        "form 'chunked' is not one of auto, parallel, chunkwise, recurrent; did you mean 'chunkwise'?",
    ),
    "no width": (dict(q=X[..., :0], k=X[..., :0]), "q and k are 0 wide"),
    "scale": (dict(scale=torch.ones(1, requires_grad=True)), "scale is a number, so it would not be learned"),
    "chunk": (dict(chunk=0), "chunk is 0: give a whole number of tokens, 1 or more"),
    "infinite": (dict(k=X * float("inf")), "k holds inf at (0, 0, 0, 0) of (1, 1, 3, 2)"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused(what):
    changes, message = BAD[what]
    with pytest.raises(Problem) as caught:
        mix(**({"q": X, "k": X, "v": X, "decay": NO_DECAY} | changes))
    assert message in str(caught.value)


def test_a_write_that_overshoots_is_refused():
    """β·|k|² above 2: every write makes the error larger."""
    k = torch.full((1, 1, 200, 2), 3.0)
    with pytest.raises(Problem, match=r"the state overflowed.*up to 18"):
        mix(k, k, torch.randn_like(k), NO_DECAY, write=torch.ones(1, 1, 200))


@pytest.mark.parametrize("form", ["auto", "recurrent", "chunkwise", "parallel"])
def test_no_tokens_leave_the_state_as_it_was(form):
    empty, state = torch.ones(1, 1, 0, 2), torch.ones(1, 1, 2, 2)
    output, last = mix(empty, empty, empty, NO_DECAY, state=state, form=form)
    assert output.shape == (1, 1, 0, 2) and torch.equal(last, state)


def test_padding_joins_no_documents():
    """A text that ends in padding and goes on after it is one text, whatever number the padding has."""
    keep, ids = torch.tensor([[True, False, True]]), torch.tensor([[4, 0, 4]])
    close(mix(X, X, X, NO_DECAY, keep=keep, documents=ids)[0], mix(X, X, X, NO_DECAY, keep=keep)[0])


def test_lists_and_other_precisions_are_accepted_where_they_have_a_meaning():
    """Who is real as a list, decays in float64 beside float32: the numbers are those of q, k and v."""
    plain = mix(X, X, X, NO_DECAY - 0.5, keep=torch.tensor([[True, False, True]]), documents=torch.tensor([[0, 0, 1]]))
    converted = mix(X, X, X, NO_DECAY.double() - 0.5, keep=[[True, False, True]], documents=[[0, 0, 1]])
    for actual, other in zip(converted, plain, strict=True):
        assert actual.dtype == torch.float32 and torch.equal(actual, other)
