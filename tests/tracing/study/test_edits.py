"""Edits: "none" changes nothing, "zero" is the head's columns of the output projection set to 0, the rest by hand."""

import itertools
import json
from contextlib import ExitStack

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer as Library
from tokenizers import models as library_models
from tokenizers import pre_tokenizers, processors

from qkv import Config, Transformer
from qkv.attention.dispatch import Call, replace_weights
from qkv.generation.decoding import translate
from qkv.generation.prefill import Reading
from qkv.text.tokenizer import Characters
from qkv.tracing.record import hf_attention
from qkv.tracing.record.recorder import trace
from qkv.tracing.study import ablation
from qkv.tracing.study.ablation import Importance, importance
from qkv.tracing.study.edits import edit, find, head_counts
from qkv.tracing.study.effects import without
from tests.selection import slow_except
from tests.tracing.record.families import build_family

ROWS = [[3, 1, 4, 1, 5, 9, 2, 6, 5], [2, 7, 1, 8, 2]]
TARGETS = [[7, 1, 2, 3, 4, 5], [7, 6, 8]]
OURS = {
    "ours": {},
    "ours, shared keys": dict(n_kv_head=2),
    "ours, window": dict(window=2),
    "ours, alibi": dict(position="alibi"),
    "ours, encoder": dict(kind="encoder", position="learned"),
    "ours, translator": dict(kind="encoder-decoder", position="sinusoidal"),
}
THEIRS = ("gpt2", "llama", "bert", "t5", "mistral", "gpt-oss")


def built(name):
    if name in THEIRS:
        return build_family(name)
    torch.manual_seed(0)
    model = Transformer(Config(vocab=11, width=36, n_layer=3, n_head=6, context=40, **OURS[name])).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(6)
    return model


@pytest.fixture(scope="module", params=[*OURS, *THEIRS])
def model(request):
    return built(request.param)


def ours(model):
    return isinstance(model, Transformer)


def several(model):
    return model.config.kind == "encoder-decoder" if ours(model) else model.config.is_encoder_decoder


def logits(model, rows=ROWS[:1]):
    """Of a batch without padding, or with padding on the right."""
    return trace(model, rows, target=TARGETS[: len(rows)] if several(model) else None, logits=True).more["logits"]


def projections(model):
    """Output projections by name: (the tensor, which axis holds the heads)."""
    outputs = {}
    if ours(model):
        for part in ("encoder", "decoder"):
            for i, block in enumerate(getattr(model, part) or ()):
                outputs[f"{part}.{i}"] = block.attention.out.weight, 1
                if block.cross is not None:
                    outputs[f"cross.{i}"] = block.cross.out.weight, 1
        return outputs
    for part, layers in hf_attention.stacks(model).items():
        for i, (path, module) in layers.items():
            holder = module if not path.endswith("attention.self") else model.get_submodule(path[:-5]).output
            names = ("o_proj", "out_proj", "c_proj", "dense", "o")
            projection = next(getattr(holder, what) for what in names if hasattr(holder, what))
            outputs[f"{part}.{i}"] = projection.weight, 0 if type(projection).__name__ == "Conv1D" else 1
    return outputs


def edited_heads(model):
    """A head of every part, not the first."""
    return [(part, max(layers), layers[max(layers)] - 2) for part, layers in head_counts(model).items()]


def test_the_shape_is_what_a_trace_finds(model):
    recorded = trace(model, ROWS[:1], target=TARGETS[:1] if several(model) else None)
    assert head_counts(model) == {
        part: dict.fromkeys(recorded.layers(part), recorded.n_head(part)) for part in recorded.parts
    }


def test_none_changes_nothing(model):
    before = logits(model)
    with edit(model, "*.*", to="none"):
        assert torch.equal(logits(model), before)
    with edit(model, "0.1", to="zero"):
        assert not torch.equal(logits(model), before)
    assert torch.equal(logits(model), before)


def test_weights_replaced_by_themselves_change_nothing_but_rounding(model):
    """The machinery alone: every head recomputed the plain way, at every layer."""
    before = logits(model, ROWS)
    where = find(model, [f"{part}.*.*" for part in head_counts(model)])
    with ExitStack() as stack:
        names = {key: f"{key[0]}.{key[1]}" for key in where}
        if not ours(model):
            stack.enter_context(hf_attention.editing(model, names))
        for key, heads in where.items():
            stack.enter_context(replace_weights(torch.clone, name=names[key], heads=heads))
        after = logits(model, ROWS)
    for item, row in enumerate(TARGETS if several(model) else ROWS):
        n = len(row) + (several(model) and not ours(model))  # theirs has a start token before it
        torch.testing.assert_close(after[item, :n], before[item, :n], atol=1e-3 * float(before.abs().max()), rtol=0)


def test_zero_is_the_projection_without_that_head(model):
    for part, layer, head in edited_heads(model):
        weight, axis = projections(model)[f"{part}.{layer}"]
        width = weight.shape[axis] // head_counts(model)[part][layer]
        original = weight.detach().clone()
        with torch.no_grad():
            weight.narrow(axis, head * width, width).zero_()
        expected = logits(model, ROWS)
        with torch.no_grad():
            weight.copy_(original)
        with edit(model, f"{part}.{layer}.{head}"):
            edited = logits(model, ROWS)
        assert not torch.equal(edited, logits(model, ROWS))
        torch.testing.assert_close(edited, expected, atol=1e-5 * float(expected.abs().max()), rtol=1e-5)


def by_hand(to, weights, allowed):
    """The new weights (N, M) of one head, from its own and what it may see, in plain Python."""
    n, m = weights.shape
    real = [any(allowed[i][j] for i in range(n)) for j in range(m)] if n == m else [True] * n
    mean = []
    for j in range(m):
        column = [weights[i][j] for i in range(n) if allowed[i][j] and real[i]]
        mean.append(sum(column) / len(column) if column else 0.0)
    table = np.zeros((n, m))
    for i in range(n):
        may = [j for j in range(m) if allowed[i][j]]
        for j in may:
            if to == "uniform":
                table[i, j] = 1 / len(may)
            elif to == "mean":
                table[i, j] = mean[j] / sum(mean[k] for k in may)
            elif to == "self":
                table[i, j] = i == j
            elif to == "first":
                table[i, j] = j == may[0]
            elif not isinstance(to, str):
                table[i, j] = to * weights[i][j]
    return table


@pytest.mark.parametrize("to", ["uniform", "mean", "first", "self", 0, 0.5, 2.0])
def test_what_a_head_gives_follows_from_its_new_weights(model, to):
    """In the edited layer the q, k, v are unchanged, so what its projection receives can be computed by hand."""
    target = TARGETS if several(model) else None
    for part, layer, head in edited_heads(model):
        if (part, to) == ("cross", "self"):
            with pytest.raises(ValueError, match="no token is itself"), edit(model, "cross.0.0", to="self"):
                pass
            continue
        recorded = trace(model, ROWS, target=target)
        call = recorded.calls[part][layer]
        weight, _ = projections(model)[f"{part}.{layer}"]
        received = []
        owner = next(m for m in model.modules() for p in m.parameters(recurse=False) if p is weight)

        def keep(module, args, store=received):
            store.append(args[0].detach())

        hook = owner.register_forward_pre_hook(keep)
        logits(model, ROWS)
        with edit(model, f"{part}.{layer}.{head}", to=to):
            logits(model, ROWS)
        hook.remove()
        before, after = received
        width = call.v.shape[3]
        others = [c for c in range(before.shape[-1]) if c // width != head]
        assert torch.equal(before[..., others], after[..., others])
        allowed = call.allowed().expand(2, call.q.shape[1], call.q.shape[2], call.k.shape[2])
        kv = head // (call.q.shape[1] // call.k.shape[1])
        for item in range(2):
            new = by_hand(to, recorded.map(layer, head, part=part, batch=item), allowed[item, head].tolist())
            actual = after[item, :, head * width : (head + 1) * width]
            np.testing.assert_allclose(actual, new @ call.v[item, kv].numpy(), atol=1e-5 * float(call.v.abs().max()))


def test_once_what_a_head_gives_is_never_touched(model):
    """Off and on again, or times 1: bit for bit; times 0 is off."""
    before = logits(model)
    with edit(model, "*.*", to=1):
        assert torch.equal(logits(model), before)
    with edit(model, "1.1"):
        off = logits(model)
    with edit(model, "1.1", to=0):
        assert torch.equal(logits(model), off) and not torch.equal(off, before)
    with edit(model, "1.1", to=1.5):
        assert not torch.equal(logits(model), before)
    assert torch.equal(logits(model), before)


@pytest.mark.parametrize("name", ["ours, shared keys", "llama"])
def test_factors_and_other_edits_compose(name):
    """Half of uniform is uniform of half; what replaces a scaled head's weights is not scaled."""
    model = built(name)
    with edit(model, "1.2", to="uniform"):
        uniform = logits(model)
        with edit(model, ["1.2", "1.3"], to=0.5):
            half = logits(model)
    with edit(model, "1.3", to=0.5), edit(model, "1.2", to=0.5), edit(model, "1.2", to="uniform"):
        replaced = logits(model)
    with edit(model, "1.3", to=0.5), edit(model, "1.2", to="uniform"):
        torch.testing.assert_close(logits(model), replaced, atol=1e-5, rtol=1e-5)
        with edit(model, "1.2", to=0.25), edit(model, "1.2", to=2):
            torch.testing.assert_close(logits(model), half, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(half, uniform, atol=1e-3) and not torch.allclose(half, replaced, atol=1e-3)


@pytest.mark.parametrize("name", ["ours", "llama"])
def test_off_needs_no_weights(name, monkeypatch):
    """A long text's would be n×n; of other edits, the weights of the edited heads alone are made."""
    model, heads = built(name), []
    table = Call.table
    monkeypatch.setattr(Call, "table", lambda call: heads.append(call.n_head) or table(call))
    with edit(model, "*.*"), edit(model, "1.1", to=0.5):
        logits(model)
    assert heads == []
    with edit(model, ["1.1", "1.3"], to="first"):
        logits(model)
    assert heads == [2]


@pytest.mark.parametrize("name", ["ours, shared keys", "llama"])
def test_edits_may_be_nested(name):
    """uniform and then mean of it; and heads of different layers at once."""
    model = built(name)
    with edit(model, "1.2", to="uniform"):
        outer = logits(model)
        with edit(model, "1.2", to="mean"):
            both = logits(model)
            with edit(model, "1.2"):
                zeroed = logits(model)
            assert torch.equal(logits(model), both)
        assert torch.equal(logits(model), outer)
    with edit(model, "1.2"):
        torch.testing.assert_close(logits(model), zeroed)
    with edit(model, "1.2", to="mean"):
        only = logits(model)
    assert not torch.allclose(both, only, atol=1e-3) and not torch.allclose(both, outer, atol=1e-3)
    with edit(model, ["0.1", "2.*"]):
        listed = logits(model)
    with edit(model, "0.1"), edit(model, ["2.0", "2.1", "2.2"]), edit(model, ["2.3", "2.4", "2.5"]):
        torch.testing.assert_close(logits(model), listed)


@pytest.mark.parametrize("to", ["zero", "uniform", "first", "self", 0.5])
@pytest.mark.parametrize("name", ["ours", "ours, shared keys", "ours, window", "ours, alibi", "ours, translator"])
def test_edits_hold_with_a_cache(name, to):
    """Token by token the logits are those of reading everything again, for rows of unlike length."""
    model = built(name)
    prompts = [[2, 3, 1], [2, 4]] if several(model) else ROWS
    source = dict(source=ROWS) if several(model) else {}
    where = {"uniform": ["1.*"], "first": ["1.*"], "self": ["1.3", "0.2"]}.get(to, ["0.1", "2.*"])
    where = [f"decoder.{head}" for head in where] + (["cross.1.2"] if several(model) and to != "self" else [])

    def read(cache):
        reading = Reading(model, prompts, most=9, cache=cache, **source)
        steps = [reading.logits]
        for token in (3, 1, 4, 1, 5):
            reading.feed(torch.tensor([token, 10 - token]))
            steps.append(reading.logits)
        return torch.stack(steps)

    plain = read(True)
    with edit(model, where, to=to):
        cached, uncached = read(True), read(False)
    torch.testing.assert_close(cached, uncached, atol=1e-4 * float(uncached.abs().max()), rtol=0)
    assert (cached - plain).abs().amax((1, 2)).min() > 1e-3 * plain.abs().max(), "the edit must show at every step"


@pytest.mark.parametrize("to", ["zero", "uniform", "self"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "gpt-oss"])
def test_edits_hold_with_their_cache(name, to):
    model = build_family(name)
    ids = torch.tensor(ROWS[:1])
    with edit(model, ["0.1", "1.*"], to=to):
        generated = [
            model.generate(ids, max_new_tokens=9, do_sample=False, use_cache=cache, pad_token_id=0, eos_token_id=None)
            for cache in (True, False)
        ]
    assert torch.equal(*generated)
    assert not torch.equal(generated[0], model.generate(ids, max_new_tokens=9, do_sample=False, pad_token_id=0))


def test_the_model_and_others_are_unchanged_afterwards():
    model, other = build_family("llama"), build_family("llama")
    before = logits(other)
    with pytest.raises(RuntimeError, match="on purpose"), edit(model, "1.2"):
        assert model.config._attn_implementation == other.config._attn_implementation == "sdpa"
        assert torch.equal(logits(other), before) and not torch.equal(logits(model), before)
        raise RuntimeError("on purpose")
    assert model.config._attn_implementation == "sdpa" and not hf_attention._replaced and not hf_attention._edited
    assert torch.equal(logits(model), before)


def test_two_models_are_edited_apart():
    llama, qwen, native = build_family("llama"), build_family("qwen2"), built("ours")
    with edit(llama, "1.2"):
        alone = logits(llama)
    with edit(qwen, "1.3"):
        beside = logits(qwen)
    untouched = logits(native)
    with edit(llama, "1.2"), edit(qwen, "1.3"):
        assert torch.equal(logits(llama), alone) and torch.equal(logits(qwen), beside)
        assert torch.equal(logits(native), untouched)


@pytest.mark.parametrize("name", ["ours", "llama"])
def test_a_trace_inside_an_edit_keeps_the_models_own_qkv(name):
    model = built(name)
    with edit(model, "1.2"):
        recorded = trace(model, ROWS[0])
    assert sorted(recorded.outputs) == ["decoder.0", "decoder.1", "decoder.2"]
    assert recorded.map(1, 2).sum() == pytest.approx(len(ROWS[0]), rel=1e-5)  # where it would have looked


def test_gradients_pass_through_an_edit():
    for model in (build_family("llama"), built("ours")):
        with edit(model, "0.1", to="mean"):
            output = model(torch.tensor(ROWS[:1]))
            (output if ours(model) else output.logits).sum().backward()
        q = model.decoder[0].attention.q.weight if ours(model) else model.model.layers[0].self_attn.q_proj.weight
        width = q.shape[0] // 6
        assert q.grad[width : 2 * width].abs().max() > 0


@pytest.mark.parametrize(
    ("name", "heads", "to", "message"),
    [
        ("ours", "3.0", "zero", "no layer 3: this model has 0 … 2"),
        ("ours", "0.6", "zero", "no head 6: this layer has 0 … 5"),
        ("ours", "cross.0.0", "zero", "no part cross: it has decoder"),
        ("t5", "crosss.0.0", "zero", "it has encoder, decoder, cross"),
        ("llama", "9.0", "zero", "no layer 9"),
        ("llama", "0.6", "none", "no head 6"),
        ("ours", "13", "zero", "13 names no head"),
        ("ours", "1.x", "zero", "1.x names no head"),
        ("ours", "a.b.1.2", "zero", "names no head"),
        ("ours", "", "zero", "names no head"),
        ("ours", [], "zero", "names no head"),
        ("ours", "0.-1", "zero", "names no head"),
        ("ours", "0.0", "uniforn", "did you mean 'uniform'"),
        ("ours", "0.0", -1, "to is -1: give 0 or a positive number"),
        ("ours", "0.0", float("nan"), "to is nan"),
    ],
)
def test_wrong_names_are_refused(name, heads, to, message):
    with pytest.raises(ValueError, match=message) as caught, edit(built(name), heads, to=to):
        pass
    assert caught.value.say("zh") != str(caught.value)


def test_layers_that_share_their_attention_are_not_edited():
    config = transformers.AlbertConfig(
        vocab_size=31,
        hidden_size=24,
        embedding_size=8,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=30,
    )
    model = transformers.AlbertForMaskedLM(config).eval()
    assert trace(model, ROWS[0]).n_layer() == 3
    with pytest.raises(ValueError, match="share one attention"), edit(model, "0.1"):
        pass


WORDS = "[PAD] [UNK] [MASK] [EOS] the cat sat on a mat because it was tired".split()
WORDS += [f"word{i}" for i in range(len(WORDS), 61)]


@pytest.fixture(scope="module")
def theirs():
    library = Library(library_models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.post_processor = processors.TemplateProcessing("$A [EOS]", special_tokens=[("[EOS]", 3)])
    roles = dict(unk_token="[UNK]", eos_token="[EOS]", pad_token="[PAD]", mask_token="[MASK]")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=library, **roles)


def test_without_a_head_other_words_are_likelier(theirs):
    model = build_family("llama")
    text = "the cat sat on the mat"
    effect = without(model, theirs, text, "1.*", most=3)
    ids = torch.tensor([theirs(text)["input_ids"][:-1]])  # without the end that the tokenizer adds
    with torch.no_grad():
        before = model(ids).logits[0, -1].softmax(-1)
        with edit(model, "1.*"):
            after = model(ids).logits[0, -1].softmax(-1)
    top = [WORDS[i] if i < 61 else f"[{i}]" for i in before.topk(3).indices.tolist()]
    assert [word for word, *_ in effect.words][: len(top)] == top
    assert 3 <= len(effect.words) <= 6 and effect.heads == ("1.*",) and effect.said is None
    for word, was, is_ in effect.words:
        i = WORDS.index(word) if word in WORDS else int(word[1:-1])
        assert was == pytest.approx(float(before[i]), abs=1e-5) and is_ == pytest.approx(float(after[i]), abs=1e-5)
    assert effect.moved == pytest.approx(float((before - after).abs().sum() / 2), abs=1e-4)
    assert without(model, theirs, text, "1.*", to="none").moved == 0.0


def test_without_compares_the_hidden_word_of_an_encoder(theirs):
    model = build_family("bert")
    effect = without(model, theirs, "the cat [MASK] on the mat", ["0.*", "1.1"], most=4)
    ids = torch.tensor([theirs("the cat [MASK] on the mat")["input_ids"]])
    with torch.no_grad():
        before = model(ids).logits[0, 2].softmax(-1)
    assert effect.words[0][1] == pytest.approx(float(before.max()), abs=1e-5) and effect.moved > 0.01
    with pytest.raises(ValueError, match=r"write \[MASK\] in the text"):
        without(model, theirs, "the cat", "0.1")
    with pytest.raises(ValueError, match="BertModel gives states, not words"):
        without(model.bert, theirs, "the [MASK]", "0.1")


@pytest.mark.parametrize(
    ("name", "to"),
    slow_except(
        [("ours", "none"), ("t5", "mean"), ("marian", "zero")],
        itertools.product(["ours", "t5", "marian"], ["zero", "mean", "none"]),
    ),
)
def test_without_a_head_the_translation_changes(name, to, theirs):
    heads = ["cross.0.*", "encoder.1.*"]
    if name == "ours":
        tokenizer = Characters.make("abcdefg", ("bos", "eos"))
        torch.manual_seed(0)
        model = Transformer(
            Config(vocab=tokenizer.vocab, width=36, n_layer=2, n_head=6, kind="encoder-decoder", position="sinusoidal")
        )
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(6 if parameter.ndim == 2 else 1)
        text = "abcdefg"
        by_hand = lambda: translate(model, tokenizer, [text])[0]  # noqa: E731
    else:
        model, tokenizer, text = build_family(name), theirs, "the cat sat because it was tired"

        def by_hand():
            ids = torch.tensor([theirs(text)["input_ids"]])
            options = dict(do_sample=False, max_new_tokens=63 if name != "t5" else 128, use_cache=to != "mean")
            ids = model.generate(ids, attention_mask=torch.ones_like(ids), **options)[0, 1:]
            return theirs.decode(ids, skip_special_tokens=True)

    effect = without(model, tokenizer, text, heads, to=to)
    before, after = effect.said
    assert before == by_hand() and effect.moved == float(before != after)
    if to != "mean" or name != "ours":
        with edit(model, heads, to):
            assert after == by_hand()
    assert (before != after) == (to == "zero") or to == "mean"


@pytest.mark.parametrize("to", ["zero", "mean"])
def test_the_mean_of_queries_needs_no_cache(to, theirs, monkeypatch):
    """With a cache every call has one query, whose mean is itself: then nothing would change."""
    caches = []
    model = build_family("marian")
    own = model.generate
    monkeypatch.setattr(model, "generate", lambda **options: caches.append(options["use_cache"]) or own(**options))
    without(model, theirs, "the cat sat", "cross.0.1", to=to)

    from qkv.generation import decoding as home

    generate = home.generate
    monkeypatch.setattr(home, "generate", lambda *args, **more: caches.append(more["cache"]) or generate(*args, **more))
    tokenizer = Characters.make("abcdefg", ("bos", "eos"))
    config = Config(vocab=tokenizer.vocab, width=36, n_layer=2, n_head=6, kind="encoder-decoder", position="sinusoidal")
    without(Transformer(config), tokenizer, "abc", "cross.0.1", to=to)
    assert caches == [to != "mean"] * 4


@pytest.mark.parametrize("name", ["ours", "ours, translator", "llama", "t5", "bert"])
def test_importance_is_the_change_of_the_loss(name, theirs):
    model = built(name)
    texts, target, tokenizer = [ROWS[0], ROWS], None, None
    if several(model):
        target = [TARGETS[0], TARGETS]
    if name == "bert":
        tokenizer = theirs
        texts = ["the cat sat on the mat because it was tired", ["it was a cat", "the mat was tired and sat"]]
    ranked = importance(model, texts, tokenizer, target=target)
    assert all(isinstance(row, Importance) for row in ranked)
    assert [row.change for row in ranked] == sorted((row.change for row in ranked), reverse=True)
    counts = head_counts(model)
    assert {row[:3] for row in ranked} == {(p, i, h) for p in counts for i, n in counts[p].items() for h in range(n)}

    def loss():
        """From logits, item by item, without batches."""
        total, count = 0.0, 0
        if name == "bert":
            rows = [theirs(t)["input_ids"] for t in (texts[0], *texts[1])]
        else:
            rows = [ROWS[0], *ROWS]
        targets = [TARGETS[0], *TARGETS] if several(model) else rows
        for row, answer in zip(rows, targets, strict=True):
            if name == "bert":
                hidden = [2 if i % 7 == 3 else token for i, token in enumerate(row)]
                shares = trace(model, hidden, logits=True).more["logits"][0].log_softmax(-1)
                labels = [(i, row[i]) for i in range(3, len(row), 7)]
            else:
                recorded = trace(model, row, target=[answer] if several(model) else None, logits=True)
                ids = recorded.tokens("decoder").ids
                shares = recorded.more["logits"][0].log_softmax(-1)
                labels = [(i, ids[i + 1]) for i in range(len(ids) - 1)]
            total -= sum(float(shares[i, token]) for i, token in labels)
            count += len(labels)
        return total / count

    base = loss()
    for part, layer, head, change in (ranked[0], ranked[len(ranked) // 2], ranked[-1]):
        with edit(model, f"{part}.{layer}.{head}"):
            assert change == pytest.approx(loss() - base, abs=1e-3 * max(base, 1))


def test_importance_resumes_where_it_stopped(tmp_path, monkeypatch):
    model = built("ours")
    file = tmp_path / "heads" / "importance.jsonl"
    whole = importance(model, ROWS)

    class Stop(Exception):
        pass

    def stop(done, total):
        assert total == 18
        if done == 7:
            raise Stop

    with pytest.raises(Stop):
        importance(model, ROWS, progress=stop, resume=file)
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 8
    torn = "\n".join(lines) + "\n" + lines[-1][:9]
    file.write_text(torn, encoding="utf-8")

    edited = []
    own = ablation.edit
    monkeypatch.setattr(ablation, "edit", lambda model, heads, to: edited.append(heads) or own(model, heads, to))
    counts = []
    again = importance(model, ROWS, resume=file, progress=lambda done, total: counts.append(done))
    assert len(edited) == 11 and counts[-1] == 18 and again == whole
    assert len(file.read_text(encoding="utf-8").splitlines()) == 19
    edited.clear()
    assert importance(model, ROWS, resume=file) == whole and not edited

    with pytest.raises(ValueError, match="other texts"):
        importance(model, ROWS[:1], resume=file)
    with pytest.raises(ValueError, match="another edit"):
        importance(model, ROWS, resume=file, to="uniform")
    with torch.no_grad():
        model.head.weight.mul_(1.5)
    with pytest.raises(ValueError, match="another model"):
        importance(model, ROWS, resume=file)
    file.write_text(json.dumps([1, 2]) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="not a record of head importance"):
        importance(model, ROWS, resume=file)


def test_importance_needs_something_to_predict():
    with pytest.raises(ValueError, match="nothing to predict"):
        importance(built("ours"), [[3]])
    with pytest.raises(ValueError, match="1 targets"):
        importance(built("ours, translator"), ROWS, target=TARGETS[:1])
