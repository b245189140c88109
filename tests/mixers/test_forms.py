"""Parallel = recurrent = chunkwise = NumPy reference, in output, final state and gradient; and what must not matter."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.mixers import forms, mix

from .cases import Case, by_reference, cases, close

FORMS = ["parallel", "recurrent", "chunkwise"]


@pytest.mark.parametrize("form", FORMS)
@given(case=cases(), chunk=st.integers(1, 8), scale=st.sampled_from([None, 1.0, 0.3]))
def test_equals_the_reference(form, case, chunk, scale):
    expected = by_reference(case, case.k.shape[-1] ** -0.5 if scale is None else scale)
    output, state = case.mix(form=form, chunk=chunk, scale=scale)
    close(output, expected.output)
    close(state, expected.state)


@given(case=cases(), chunk=st.integers(1, 8), seed=st.integers(0, 99))
def test_gradients_agree(case, chunk, seed):
    """Of everything that goes in, through output and state alike; the recurrent form's come from autograd itself."""
    gradients = {}
    for form in FORMS:
        ours = case.leaves()
        output, state = ours.mix(form=form, chunk=chunk)
        torch.manual_seed(seed)
        ((output * torch.randn_like(output)).sum() + (state * torch.randn_like(state)).sum()).backward()
        gradients[form] = [None if t is None else t.grad for t in vars(ours).values()]
    for form in ("parallel", "chunkwise"):
        for ours, plain in zip(gradients[form], gradients["recurrent"], strict=True):
            assert (ours is None) == (plain is None)
            if ours is not None:
                close(ours, plain)


@given(case=cases(state=False, least=2), chunk=st.integers(1, 8), data=st.data())
def test_continuing_from_the_state_of_a_prefix_equals_a_single_pass(case, chunk, data):
    cut = data.draw(st.integers(1, case.n - 1))
    output, state = case.mix(chunk=chunk)
    first, carried = case.part(0, cut).mix(chunk=chunk)
    second, last = case.part(cut, case.n).mix(state=carried, chunk=chunk)
    close(torch.cat([first, second], 2), output)
    close(last, state)


@given(case=cases(least=2), chunk=st.integers(1, 8), form=st.sampled_from(FORMS), data=st.data())
def test_the_future_changes_nothing(case, chunk, form, data):
    cut = data.draw(st.integers(1, case.n - 1))
    before = case.mix(form=form, chunk=chunk)[0]
    with torch.no_grad():
        for t in (*case.inputs[:3], case.write):
            if t is not None:
                t[:, :, cut:] = -0.7
        case.decay[:, :, cut:] = -0.3
    close(case.mix(form=form, chunk=chunk)[0][:, :, :cut], before[:, :, :cut], 1e-12)


@given(case=cases(), chunk=st.integers(1, 8), form=st.sampled_from(FORMS), data=st.data())
def test_padding_changes_nothing(case, chunk, form, data):
    """On either side or in between, even where it is NaN; a state passes through it untouched."""
    output, state = case.mix()
    positions = torch.tensor(sorted(data.draw(st.permutations(range(case.n + 4)))[: case.n]))
    keep = torch.zeros(len(case.v), case.n + 4, dtype=torch.bool)
    keep[:, positions] = True

    def spread(t, fill):
        if t is None:
            return None
        wide = torch.full((*t.shape[:2], case.n + 4, *t.shape[3:]), fill, dtype=t.dtype)
        wide[:, :, positions] = t
        return wide

    nan = float("nan")
    padded = Case(
        spread(case.q, 1.0),
        spread(case.k, nan),
        spread(case.v, nan),
        spread(case.decay, -5.0),
        spread(case.write, nan),
        case.state,
    )
    ours, last = padded.mix(keep=keep, form=form, chunk=chunk)
    close(ours[:, :, positions], output)
    close(last, state)


@given(case=cases(least=2), chunk=st.integers(1, 8), form=st.sampled_from(FORMS), data=st.data())
def test_documents_know_nothing_of_each_other(case, chunk, form, data):
    """Packed = each by itself; the state that came before belongs to the first, the one that is left to the last."""
    cuts = sorted({0, case.n, *data.draw(st.lists(st.integers(1, case.n - 1), max_size=3))})
    ids = torch.zeros(len(case.v), case.n, dtype=torch.long)
    for number, start in enumerate(cuts[:-1]):
        ids[:, start:] = number
    ours = case.leaves()
    output, state = ours.mix(documents=ids, form=form, chunk=chunk)
    theirs = case.leaves()
    alone = [theirs.part(a, b).mix(state=theirs.state if a == 0 else None) for a, b in pairwise(cuts)]
    close(output, torch.cat([part for part, _ in alone], 2))
    close(state, alone[-1][1])
    output.square().sum().backward()
    sum(part.square().sum() for part, _ in alone).backward()
    for packed, single in zip(vars(ours).values(), vars(theirs).values(), strict=True):
        if packed is not None:
            close(packed.grad, single.grad)


@pytest.mark.parametrize("delta", [False, True])
def test_long_texts_and_extreme_decays_give_numbers(delta):
    """100,000 tokens whose decays are almost 0, almost 1 and all between: finite, and the recurrence's own numbers."""
    torch.manual_seed(0)
    n = 100_000
    k = torch.nn.functional.normalize(torch.randn(1, 1, n, 4), dim=-1)
    q, v, write = torch.randn(1, 1, n, 4), torch.randn(1, 2, n, 3), torch.rand(1, 2, n)
    decay = -(10.0 ** torch.empty(1, 2, n).uniform_(-8, 2.8))
    decay[:, 1] = -1e-9
    leaves = [t.requires_grad_() for t in (q, k, v, decay, write)]
    output, state = mix(q, k, v, decay, write=write if delta else None)
    (output.sum() + state.sum()).backward()
    assert all(t.grad is None or t.grad.isfinite().all() for t in leaves) and output.isfinite().all()
    with torch.no_grad():
        exact = [t[:, :, -500:].double() for t in leaves]
        before = mix(
            *(t[:, :, :-500].double() for t in leaves[:4]), write=write[:, :, :-500].double() if delta else None
        )[1]
        expected = mix(*exact[:4], write=exact[4] if delta else None, state=before, form="recurrent")[0]
    error = (output[:, :, -500:] - expected).abs().max() / expected.abs().max()
    assert error < 1e-5, float(error)


def test_small_decays_after_a_strong_decay_survive_in_float32():
    """Running sums in float32 would lose what follows e^(−1,000)·…: 32 strong decays, then 32 of −0.001."""
    decay = torch.cat([torch.full((32,), -1000.0), torch.full((32,), -0.001)]).expand(1, 1, 64)
    x = torch.ones(1, 1, 64, 1)
    output = mix(x, x, x, decay, scale=1.0)[0]
    expected = mix(*(t.double() for t in (x, x, x, decay)), scale=1.0, form="recurrent")[0]
    close(output, expected, 1e-6)


@given(case=cases(), chunk=st.integers(1, 4))
def test_spans_are_only_for_the_cache(case, chunk):
    output, state = case.mix(chunk=chunk)
    whole, forms.SPAN = forms.SPAN, 1
    try:
        cut = case.mix(chunk=chunk)
    finally:
        forms.SPAN = whole
    close(cut[0], output, 1e-12)
    close(cut[1], state, 1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", FORMS)
def test_half_precision_keeps_its_state_in_float32(dtype, form):
    x = torch.ones(1, 1, 3000, 2, dtype=dtype)
    output, state = mix(x, x, x, torch.zeros(1, dtype=dtype), form=form, scale=0.001)
    assert output.dtype == dtype and state.dtype == torch.float32
    assert state[0, 0, 0, 0] == 3000  # bfloat16 stops counting at 256
