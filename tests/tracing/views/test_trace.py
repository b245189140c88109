"""Views of a trace: each must be a piece, a pooling or a sum of the one true map, which the oracle gives."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from qkv import Config, Transformer, masks, record
from qkv.attention.dispatch import Call
from qkv.attention.oracle import from_qkv
from qkv.i18n import Problem
from qkv.tracing.record.recorder import trace
from qkv.tracing.views import attention_maps
from qkv.tracing.views.token_labels import Tokens
from qkv.tracing.views.traces import Trace, join

CONFIGS = {
    "rotary, shared keys": dict(n_kv_head=2),
    "window": dict(window=3),
    "learned": dict(position="learned"),
    "alibi": dict(position="alibi"),
    "relative": dict(position="relative"),
    "encoder": dict(kind="encoder", position="learned"),
    "translator": dict(kind="encoder-decoder", position="sinusoidal"),
    "latent": dict(mixer="latent", rank=12, rope_width=4),
}
ROWS = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [2, 7, 1, 8, 2, 8]]


@pytest.fixture(params=CONFIGS)
def model(request):
    torch.manual_seed(0)
    built = Transformer(Config(vocab=11, width=36, n_layer=2, n_head=6, context=40, **CONFIGS[request.param])).double()
    with torch.no_grad():
        for p in built.parameters():
            if p.ndim == 2:
                p.mul_(8)  # heads that look somewhere
    return built.eval()


def traced(model, rows=ROWS):
    target = [[1, 2, 3, 4, 5], [6, 7, 8]] if model.config.kind == "encoder-decoder" else None
    return trace(model, rows, target=target)


def oracle(call, item, head):
    """The weights by NumPy in float64, from what the layer handed over."""
    done = from_qkv(
        *(t.numpy() for t in (call.q, call.k, call.v)),
        mask=call.allowed().numpy(),
        scale=call.scale,
        bias=None if call.bias is None else call.bias.numpy(),
        softcap=call.softcap,
        sinks=None if call.sinks is None else call.sinks.numpy(),
    )
    return done.weights[item, head]


def every(recorded):
    for part in recorded.parts:
        for layer in range(recorded.n_layer(part)):
            for item in range(2):
                yield part, layer, layer % recorded.n_head(part) + 3 * item, item


def test_maps_are_the_oracles(model):
    recorded = traced(model)
    for part, layer, head, item in every(recorded):
        true = oracle(recorded.calls[part][layer], item, head)
        np.testing.assert_allclose(recorded.map(layer, head, part=part, batch=item), true, atol=1e-6)


def test_tracing_changes_nothing(model):
    ids = torch.tensor(ROWS[:1])
    target = torch.tensor([[1, 2, 3, 4, 5]])
    inputs = (target, ids) if model.config.kind == "encoder-decoder" else (ids,)
    model.train()
    with torch.no_grad():
        model.eval()
        before = model(*inputs)
        model.train()
    recorded = trace(
        model, ROWS[:1], target=[target[0].tolist()] if model.config.kind == "encoder-decoder" else None, logits=True
    )
    assert model.training
    assert torch.equal(recorded.more["logits"], before.float())


def test_a_long_text_in_chunks_is_the_whole_text(model, monkeypatch):
    from qkv.tracing.record import chunking

    if model.config.kind != "decoder":
        return
    whole = trace(model, ROWS[:1], logits=True)
    monkeypatch.setattr(chunking, "CHUNK", 4)
    longest = []
    hook = model.decoder[0].register_forward_pre_hook(lambda module, args: longest.append(args[0].shape[1]))
    chunks = trace(model, ROWS[:1], logits=True)
    hook.remove()
    assert longest == [3, 4, 4]
    for layer in (0, 1):
        np.testing.assert_allclose(chunks.map(layer, 5), whole.map(layer, 5), atol=1e-6)
        np.testing.assert_allclose(chunks.map(layer, 5, bins=3), whole.map(layer, 5, bins=3), atol=1e-6)
        a, b = whole.calls["decoder"][layer], chunks.calls["decoder"][layer]
        assert a.mask == b.mask
        torch.testing.assert_close(b.v, a.v)
    torch.testing.assert_close(chunks.more["logits"], whole.more["logits"], rtol=1e-5, atol=1e-5)
    if model.config.position in ("alibi", "relative"):
        assert chunks.calls["decoder"][0].bias is chunks.calls["decoder"][1].bias


def test_rows_columns_and_rectangles_are_slices_of_the_whole(model):
    recorded = traced(model)
    for part, layer, head, item in every(recorded):
        whole = recorded.map(layer, head, part=part, batch=item)
        where = dict(part=part, batch=item)
        np.testing.assert_allclose(recorded.row(layer, head, 2, **where), whole[2], atol=1e-7)
        np.testing.assert_allclose(recorded.column(layer, head, 1, **where), whole[:, 1], atol=1e-6)
        rectangle = recorded.map(layer, head, rows=slice(1, 4), cols=[0, 3, 2], **where)
        np.testing.assert_allclose(rectangle, whole[1:4][:, [0, 3, 2]], atol=1e-7)


@pytest.mark.parametrize("pool", attention_maps.POOLS)
@pytest.mark.parametrize("bins", [1, 3, 4, 7, 100])
def test_pooled_is_pooling_the_whole(model, pool, bins, monkeypatch):
    monkeypatch.setattr(attention_maps, "BLOCK", 40)  # several blocks even here
    recorded = traced(model)
    for part, layer, head, item in every(recorded):
        whole = recorded.map(layer, head, part=part, batch=item)
        tall, wide = (-(-size // bins) for size in whole.shape)
        how = {"mean": np.mean, "max": np.max, "sum": np.sum}[pool]
        true = [
            [how(whole[i : i + tall, j : j + wide]) for j in range(0, whole.shape[1], wide)]
            for i in range(0, whole.shape[0], tall)
        ]
        np.testing.assert_allclose(
            recorded.map(layer, head, bins=bins, pool=pool, part=part, batch=item), true, atol=1e-6
        )


@pytest.mark.parametrize("pool", attention_maps.POOLS)
@pytest.mark.parametrize("bins", [1, 3, 7, 40, 100])
@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_pooling_by_tiles_is_pooling_the_whole(kind, bins, pool, monkeypatch):
    torch.manual_seed(0)
    model = Transformer(Config(kind=kind, vocab=11, width=36, n_layer=1, n_head=6, n_kv_head=2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    recorded = trace(model, torch.randint(11, (1, 101)).tolist())
    view = recorded.head(0, 4)
    assert view.plain
    torch.testing.assert_close(view.lse, torch.logsumexp(view.scores(), -1), rtol=1e-5, atol=1e-5)
    whole = recorded.map(0, 4, bins=bins, pool=pool)
    monkeypatch.setattr(attention_maps, "LARGE", 0)
    monkeypatch.setattr(attention_maps, "TILE", (16, 24))
    np.testing.assert_allclose(recorded.map(0, 4, bins=bins, pool=pool), whole, atol=1e-5, rtol=1e-4)


def test_the_mean_over_heads(model):
    recorded = traced(model)
    part = recorded.parts[-1]
    heads = [recorded.map(1, h, part=part) for h in range(recorded.n_head(part))]
    np.testing.assert_allclose(recorded.map(1, part=part), np.mean(heads, 0), atol=1e-6)


def test_steps_give_the_models_own_attention(model):
    recorded = traced(model)
    for part, layer, head, item in every(recorded):
        assert recorded.difference(layer, head, part=part, batch=item) < 1e-12
        steps = recorded.steps(layer, head, query=2, part=part, batch=item)
        np.testing.assert_allclose(steps.weights[0], recorded.row(layer, head, 2, part=part, batch=item), atol=1e-6)


def test_the_rotation_is_that_of_the_model(model):
    recorded = traced(model)
    part = recorded.parts[0]
    pairs = recorded.rotation(1, 3, 2, part=part)
    if model.config.position != "rotary" or model.config.mixer != "attention":
        assert pairs is None
        return
    outputs = {}
    hook = model.decoder[1].attention.q.register_forward_hook(lambda module, args, output: outputs.update(q=output))
    trace(model, ROWS)
    hook.remove()
    width = model.decoder[1].attention.head_width
    before = outputs["q"][0, 2, 3 * width : 4 * width].detach().numpy()
    np.testing.assert_allclose(pairs[:, 1:3], before.reshape(2, -1).T, atol=1e-5)
    np.testing.assert_allclose(pairs[:, 3:], recorded.calls[part][1].q[0, 3, 2].view(2, -1).T, atol=1e-5)
    np.testing.assert_allclose(pairs[0, 0], 2.0)
    turned = (pairs[:, 1] + 1j * pairs[:, 2]) * np.exp(1j * pairs[:, 0])
    np.testing.assert_allclose(turned, pairs[:, 3] + 1j * pairs[:, 4], atol=1e-4)


def test_contributions_of_all_heads_are_the_layers_output(model):
    recorded = traced(model, ROWS[:1]) if model.config.kind != "encoder-decoder" else traced(model)
    part = recorded.parts[0]
    stack = model.encoder if part == "encoder" else model.decoder
    outputs = {}
    hook = stack[1].attention.out.register_forward_hook(lambda module, args, output: outputs.update(output=output))
    if model.config.kind == "encoder-decoder":
        trace(model, ROWS, target=[[1, 2, 3, 4, 5], [6, 7, 8]])
    else:
        trace(model, ROWS[:1])
    hook.remove()
    total = sum(recorded.contribution(1, head, 3, part=part) for head in range(recorded.n_head(part)))
    bias = stack[1].attention.out.bias
    own = outputs["output"][0, 3] - (0 if bias is None else bias)
    np.testing.assert_allclose(total, own.detach().numpy(), atol=1e-4, rtol=1e-4)


def test_norms_are_weights_times_the_length_of_what_is_carried(model):
    recorded = traced(model)
    part = recorded.parts[0]
    call = recorded.calls[part][0]
    width = call.v.shape[3]
    w_o = recorded.outputs[f"{part}.0"].weight[:, 2 * width : 3 * width].detach()
    kv = 2 // (call.q.shape[1] // call.k.shape[1])
    true = recorded.map(0, 2, part=part) * (call.v[0, kv] @ w_o.T).norm(dim=-1).numpy()
    np.testing.assert_allclose(recorded.norms(0, 2, part=part), true, rtol=1e-4)


def test_rollout_rows_are_shares(model):
    recorded = traced(model)
    flow = recorded.rollout(part=recorded.parts[0])
    n = len(ROWS[0]) if recorded.parts[0] == "encoder" or model.config.kind != "encoder-decoder" else 5
    np.testing.assert_allclose(flow[:n].sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("half", [False, True])
def test_a_saved_trace_is_the_same_trace(model, half, tmp_path):
    recorded = traced(model)
    recorded.save(tmp_path / "t.safetensors", half=half)
    again = Trace.load(tmp_path / "t.safetensors")
    assert again.parts == recorded.parts and again.tokens(batch=1) == recorded.tokens(batch=1)
    assert again.turning == recorded.turning
    for part, layer, head, item in every(recorded):
        for bins in (None, 3):
            a, b = (t.map(layer, head, bins=bins, part=part, batch=item) for t in (recorded, again))
            np.testing.assert_allclose(a, b, atol=0.02 if half else 1e-5)
    near = 0.05 if half else 1e-4
    np.testing.assert_allclose(again.contribution(0, 1, 2), recorded.contribution(0, 1, 2), rtol=near, atol=near)


def test_no_file_holds_an_n_by_n_matrix(tmp_path):
    sizes = []
    for n in (64, 128):
        torch.manual_seed(0)
        model = Transformer(Config(vocab=11, width=32, n_layer=2, n_head=4, position="relative"))
        trace(model, torch.randint(11, (1, n)).tolist()).save(tmp_path / "t.safetensors")
        sizes.append((tmp_path / "t.safetensors").stat().st_size)
    assert sizes[1] < 2.2 * sizes[0]


def test_sinks_and_softcap_take_their_part():
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 6, 9, 8).double(), torch.randn(2, 3, 9, 8).double(), torch.randn(2, 3, 9, 8).double()
    mask = masks.causal() & masks.padding(torch.tensor([9, 4]))
    call = Call(q, k, v, mask, 0.3, None, 2.0, torch.randn(6).double(), "decoder.0")
    tokens = [Tokens(tuple("abcdefghi"))] * 2
    recorded = Trace({"decoder": [call]}, {"decoder": tokens}, {"decoder": tokens})
    for item in (0, 1):
        for head in range(6):
            true = oracle(call, item, head)
            np.testing.assert_allclose(recorded.map(0, head, batch=item), true, atol=1e-6)
            np.testing.assert_allclose(recorded.column(0, head, 2, batch=item), true[:, 2], atol=1e-6)
            np.testing.assert_allclose(recorded.map(0, head, bins=9, batch=item), true, atol=1e-6)


def test_a_row_that_may_see_nothing_is_zero():
    q = torch.randn(1, 1, 5, 4)
    call = Call(q, q, q, masks.dense(torch.tensor([[False] * 5] * 2 + [[True] * 5] * 3)), 0.5, name="decoder.0")
    tokens = [Tokens(tuple("abcde"))]
    recorded = Trace({"decoder": [call]}, {"decoder": tokens}, {"decoder": tokens})
    assert not recorded.map(0, 0)[:2].any() and not recorded.column(0, 0, 3)[:2].any()
    assert np.isfinite(recorded.map(0, 0, bins=2)).all()


def test_rows_of_joined_words_sum_to_1(model):
    recorded = traced(model)
    groups = [("ab", 0, 2), ("c", 2, 3), ("de", 3, 5)]
    part = recorded.parts[-1]
    table = recorded.map(0, 0, part=part)[:5]
    keys = [("x", 0, 4), ("y", 4, table.shape[1])]
    joined = join(table, groups, keys)
    np.testing.assert_allclose(joined.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(joined[0, 0], table[:2, :4].sum(1).mean(), atol=1e-6)


def test_finding_heads_ranks_by_the_true_weight():
    torch.manual_seed(0)
    model = Transformer(Config(vocab=11, width=36, n_layer=3, n_head=6))
    recorded = trace(model, ROWS[0])
    ranked = recorded.find(7, 2, most=18)
    assert [w for *_, w in ranked] == sorted((w for *_, w in ranked), reverse=True)
    layer, head, weight = ranked[0]
    assert weight == pytest.approx(float(recorded.map(layer, head)[7, 2])) and len(ranked) == 18


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (lambda t: t.map(9, 0), "no layer 9"),
        (lambda t: t.map(0, 6), "no head 6"),
        (lambda t: t.map(0, 0, part="cross"), "no part cross"),
        (lambda t: t.map(0, 0, batch=1), "no item 1"),
        (lambda t: t.row(0, 0, 99), "no token 99"),
        (lambda t: t.row(0, 0, "dog"), "dog is not a token"),
        (lambda t: t.row(0, 0, "[1]"), "occurs 2 times, at 1, 3"),
        (lambda t: t.map(0, 0, bins=0), "bins is 0"),
        (lambda t: t.map(0, 0, bins=2, pool="median"), "pool median"),
    ],
)
def test_missing_layers_heads_and_tokens_are_refused(view, message):
    torch.manual_seed(0)
    recorded = trace(Transformer(Config(vocab=11, width=36, n_layer=2, n_head=6)), ROWS[0])
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        view(recorded)


def test_broken_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no trace"):
        Trace.load(tmp_path / "none.safetensors")
    recorded = trace(Transformer(Config(vocab=11, width=36, n_layer=2, n_head=6)), ROWS[0])
    file = tmp_path / "t.safetensors"
    recorded.save(file)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a readable trace"):
        Trace.load(file)
    file.write_bytes(whole.replace(b"qkv trace 1", b"qkv trace 9"))
    with pytest.raises(ValueError, match="qkv trace 9; this version reads qkv trace 1"):
        Trace.load(file)


def test_recording_inside_a_recording_still_works():
    model = Transformer(Config(vocab=11, width=36, n_layer=2, n_head=6))
    with record() as outer:
        trace(model, ROWS[0])
    assert len(outer) == 2


def test_a_replaced_trace_has_its_own_cache():
    """What was computed from other calls must not be shown as these calls' own."""
    torch.manual_seed(0)
    recorded = trace(Transformer(Config(vocab=11, width=24, n_layer=2, n_head=4)), [3, 1, 4, 1, 5, 9, 2])
    before, looked = recorded.map(0, 1), recorded.survey()
    turned = replace(recorded, calls={"decoder": recorded.calls["decoder"][::-1]})
    np.testing.assert_array_equal(turned.map(1, 1), before)
    assert not np.array_equal(turned.map(0, 1), before)
    assert turned.survey().heads[0][1][1].link == looked.heads[0][0][1].link


def test_layers_may_have_different_numbers_of_heads(tmp_path):
    torch.manual_seed(0)
    calls = []
    for layer, heads in enumerate((2, 5)):
        q = torch.randn(1, heads, 7, 4)
        calls.append(Call(q, torch.randn(1, heads, 7, 4), q, masks.causal(), 0.5, name=f"decoder.{layer}"))
    tokens = {"decoder": [Tokens(tuple(f" w{i}" for i in range(7)))]}
    recorded = Trace({"decoder": calls}, tokens, tokens)
    recorded.save(tmp_path / "t.safetensors")
    for each in (recorded, Trace.load(tmp_path / "t.safetensors")):
        assert (each.n_head(), each.n_head(layer=0), each.n_head(layer=1)) == (5, 2, 5)
        assert len(each.find(5, 2, most=None)) == len(each.patterns().table) == 7
        np.testing.assert_allclose(each.map(0), (each.map(0, 0) + each.map(0, 1)) / 2, atol=1e-6)
        assert each.rollout().shape == (7, 7) and each.survey().most_telling((0, 1), range(5))[0] in (0, 1)
        with pytest.raises(ValueError, match="there is no head 2"):
            each.map(0, 2)


@pytest.mark.parametrize("mask", [masks.causal(), masks.window(1), masks.window(0, 2)], ids=repr)
@pytest.mark.parametrize(("n", "m"), [(9, 4), (4, 9)])
def test_rows_that_reach_no_key_are_zero_in_every_view(n, m, mask, monkeypatch):
    """With more queries than keys the first rows of a band lie before all keys."""
    monkeypatch.setattr(attention_maps, "BLOCK", 2 * m)  # blocks of two rows: some of them see nothing at all
    q, k = torch.randn(1, 4, n, 3), torch.randn(1, 2, m, 3)
    view = attention_maps.head_of(Call(q, k, k, mask, 1.0), 0, 3)
    whole = view.weights()
    assert torch.equal(view.lse == float("-inf"), ~view.allowed().any(-1))
    torch.testing.assert_close(torch.stack([view.column(j) for j in range(m)], 1), whole)
    torch.testing.assert_close(view.pooled(100, "sum"), whole)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (torch.tensor([[3, 1, 4]]), r"inputs is a Tensor: give a dict .*\"input_ids\": ids.*trace\(model, ids\)"),
        ([[3, 1, 4]], "inputs is a list: give a dict"),
        (5, "inputs is a int: give a dict"),
        ({"ids": [[3, 1, 4]]}, "needs input_ids; it has ids"),
        ({}, "needs input_ids"),
    ],
    ids=lambda p: p if isinstance(p, str) else type(p).__name__,
)
def test_inputs_that_are_not_a_dict_of_ids_are_refused_with_what_to_give(inputs, message):
    with pytest.raises(Problem, match=message):
        trace(Transformer(Config(vocab=11, width=8, n_layer=1, n_head=2)), inputs=inputs)
