"""Models of transformers: our maps are its own eager maps, tracing changes nothing, and the model is left as it was."""

import inspect
import threading

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers, processors

from qkv import masks
from qkv.attention.rules import Band, Dense
from qkv.i18n import Notice
from qkv.text.tokenizer import Characters
from qkv.tracing.record import chunking, hf_attention
from qkv.tracing.record import hf_eager as keeping
from qkv.tracing.record.recorder import trace
from qkv.tracing.study.edits import edit
from qkv.tracing.views.traces import Trace
from tests.tracing.record.families import FAMILIES, LLAMA, TRANSLATORS, build_family

ROWS = [[5, 9, 33, 7, 7, 12, 50, 41, 3, 2, 11], [19, 22, 8, 35, 6, 14]]
TARGETS = [[8, 9, 10, 31, 8, 15], [27, 44, 13]]
ATTENTIONS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param, build_family(request.param)


def inputs(family, padded):
    """What the model is called with: one text, or two, padded on either side."""
    rows, targets = (ROWS[:1], TARGETS[:1]) if padded == "none" else (ROWS, TARGETS)

    def batch(rows, side):
        longest = max(map(len, rows))
        real = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
        ids = [row + [1] * (longest - len(row)) for row in rows]
        if side == "left":
            real = [row[::-1] for row in real]
            ids = [row[len(own) :] + own for row, own in zip(ids, rows, strict=True)]
        return torch.tensor(ids), torch.tensor(real)

    ids, real = batch(rows, padded)
    arguments = {"input_ids": ids} if padded == "none" else {"input_ids": ids, "attention_mask": real}
    if family in TRANSLATORS:
        arguments["decoder_input_ids"], own = batch([[0, *row] for row in targets], padded)
        if padded != "none":
            arguments["decoder_attention_mask"] = own
    return arguments


def state(model):
    """All that tracing could leave behind."""
    return (
        [(id(c), c._attn_implementation) for c in hf_attention.configs_of(model)],
        [module.training for module in model.modules()],
        [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        dict(hf_attention._replaced),
        transformers.AttentionInterface.get_interface,
        list(hf_attention.listeners),
        dict(hf_attention._edited),
    )


@pytest.mark.parametrize("padded", ["none", "right", "left"])
def test_maps_are_the_models_own_and_nothing_changes(family, padded):
    name, model = family
    batch = inputs(name, padded)
    with torch.no_grad():
        plain = model(**batch).logits
    next(model.children()).train()
    before = state(model)
    recorded = trace(model, batch, logits=True)
    assert state(model) == before
    model.eval()
    assert torch.equal(recorded.more["logits"], plain)

    own = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            eager = model(**batch, output_attentions=True)
    finally:
        model.set_attn_implementation(own)
    looked = 0.0
    for part in recorded.parts:
        attentions = eager[ATTENTIONS[part]] if name in TRANSLATORS else eager.attentions
        assert len(attentions) == recorded.n_layer(part) > 0
        real = batch.get("attention_mask" if name not in TRANSLATORS or part == "encoder" else "decoder_attention_mask")
        for layer, table in enumerate(attentions):
            items, heads, n, _ = table.shape
            assert recorded.n_head(part) == heads
            for item in range(items):
                rows = range(n) if real is None else real[item].nonzero()[:, 0].tolist()
                for head in range(heads):
                    ours = recorded.map(layer, head, part=part, batch=item)
                    np.testing.assert_allclose(ours[rows], table[item, head].numpy()[rows], atol=1e-5, rtol=0)
                    looked = max(looked, ours[rows].max(-1).mean())
    assert looked > 0.5, "heads must look somewhere for this to mean anything"
    assert recorded.parts == (["encoder", "decoder", "cross"] if name in TRANSLATORS else recorded.parts)


@pytest.mark.parametrize("padded", ["none", "right", "left"])
def test_masks_become_rules(family, padded):
    name, model = family
    recorded = trace(model, inputs(name, padded))
    kinds = {type(rule) for part in recorded.parts for call in recorded.calls[part] for rule in call.mask.terms()}
    assert Dense not in kinds
    if name in ("mistral", "gemma2", "gemma3", "gpt-oss"):
        windows = [call.mask.terms()[0] == Band(3, 0) for call in recorded.calls["decoder"]]
        assert windows == ([True] * 3 if name == "mistral" else [True, False, True])


def test_a_long_text_in_chunks_is_the_whole_text(family, monkeypatch):
    name, model = family
    batch = inputs(name, "none")
    whole = trace(model, batch, logits=True)
    before = state(model)
    monkeypatch.setattr(chunking, "CHUNK", 4)
    sizes = []
    hook = model.get_input_embeddings().register_forward_pre_hook(lambda m, batch: sizes.append(batch[0].shape[-1]))
    chunks = trace(model, batch, logits=True)
    hook.remove()
    assert state(model) == before and (name in TRANSLATORS or whole.parts == chunks.parts)
    if whole.parts != ["decoder"]:
        assert not {3, 4} & set(sizes)  # an encoder has to see it whole
        return
    assert sizes == [3, 4, 4]
    torch.testing.assert_close(chunks.more["logits"], whole.more["logits"], rtol=1e-4, atol=1e-4)
    assert chunks.outputs.keys() == whole.outputs.keys()
    for layer, (a, b) in enumerate(zip(whole.calls["decoder"], chunks.calls["decoder"], strict=True)):
        assert a.mask == b.mask and a.name == b.name
        for head in range(whole.n_head()):
            np.testing.assert_allclose(chunks.map(layer, head), whole.map(layer, head), atol=1e-5, rtol=0)


def test_a_long_text_is_traced_at_once_where_its_mask_is_no_rule_of_distances(monkeypatch):
    torch.manual_seed(0)
    config = LLAMA | dict(hidden_size=48, head_dim=8, intermediate_size_mlp=48, attention_chunk_size=4)
    config |= dict(num_local_experts=2, num_experts_per_tok=1, interleave_moe_layer_step=100)
    model = transformers.Llama4ForCausalLM(transformers.Llama4TextConfig(**config)).eval()
    whole = trace(model, ROWS[0])
    monkeypatch.setattr(chunking, "CHUNK", 4)
    again = trace(model, ROWS[0])
    for layer in range(3):
        assert again.calls["decoder"][layer].mask == whole.calls["decoder"][layer].mask
        np.testing.assert_array_equal(again.map(layer, 1), whole.map(layer, 1))


def test_contributions_of_all_heads_are_what_the_projection_gives(family):
    name, model = family
    outputs = {}
    hooks = []
    for part, layers in hf_attention.stacks(model).items():
        for i, (path, module) in layers.items():
            holder = module if not path.endswith("attention.self") else model.get_submodule(path[:-5]).output
            projection = next(
                getattr(holder, what)
                for what in ("o_proj", "out_proj", "c_proj", "dense", "o")
                if hasattr(holder, what)
            )

            def keep(module, args, out, at=f"{part}.{i}"):
                outputs[at] = out - (0 if getattr(module, "bias", None) is None else module.bias)

            hooks.append(projection.register_forward_hook(keep))
    recorded = trace(model, inputs(name, "none"))
    for hook in hooks:
        hook.remove()
    assert (
        set(recorded.outputs)
        == set(outputs)
        == {f"{p}.{i}" for p in recorded.parts for i in range(recorded.n_layer(p))}
    )
    for part in recorded.parts:
        for layer in range(recorded.n_layer(part)):
            for query in (0, 4):
                total = sum(recorded.contribution(layer, h, query, part=part) for h in range(recorded.n_head(part)))
                own = outputs[f"{part}.{layer}"][0, query].detach().numpy()
                np.testing.assert_allclose(total, own, atol=1e-5 * np.abs(own).max(), rtol=1e-4)


def test_the_model_is_unchanged_after_a_failure(family, monkeypatch):
    name, model = family
    model.train()
    before = state(model)
    last = list(list(hf_attention.stacks(model).values())[-1].values())[-1][1]

    def fails(*_, **__):
        raise RuntimeError("on purpose")

    monkeypatch.setattr(last, "forward", fails)
    for eager in (False, True):
        with pytest.raises(ValueError, match=r"failed on this input: .*on purpose") as caught:
            trace(model, inputs(name, "none"), eager=eager)
        assert isinstance(caught.value.__cause__, RuntimeError)
    assert state(model) == before
    model.eval()


def test_id_lists_are_padded_on_the_right(family):
    name, model = family
    target = TARGETS if name in TRANSLATORS else None
    together = trace(model, ROWS, target=target)
    alone = trace(model, ROWS[1], target=None if target is None else [target[1]])
    for part in together.parts:
        n, m = (len(alone.tokens(part, keys=keys)) for keys in (False, True))
        for layer in range(together.n_layer(part)):
            single = alone.map(layer, 1, part=part)
            np.testing.assert_allclose(together.map(layer, 1, part=part, batch=1)[:n, :m], single, atol=2e-5)
    padding = together.tokens(together.parts[0], 1)
    assert padding.pieces[len(ROWS[1]) :] == ("[PAD]",) * 5 and all(padding.special[len(ROWS[1]) :])


def test_a_model_set_to_eager_stays_eager_and_gives_the_same():
    model = build_family("llama")
    fast = trace(model, ROWS[0])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        plain = model(torch.tensor(ROWS[:1])).logits
    recorded = trace(model, ROWS[0], logits=True)
    assert model.config._attn_implementation == "eager" and torch.equal(recorded.more["logits"], plain)
    assert repr(recorded.calls["decoder"][0].mask) == "causal()"
    np.testing.assert_allclose(recorded.map(2, 5), fast.map(2, 5), atol=1e-5)


def test_gpt2_that_reorders_and_upcasts_bypasses_the_kernel_registry():
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=71, n_positions=41, n_embd=42, n_layer=2, n_head=6)
    config.reorder_and_upcast_attn = True
    model = transformers.GPT2LMHeadModel(config).eval()
    model.set_attn_implementation("eager")
    with pytest.raises(ValueError, match="the attention of GPT2Attention doesn't ask"):
        trace(model, ROWS[0])
    assert trace(model, ROWS[0], eager=True).layers() == (0, 1)


def test_long_texts_keep_no_square():
    n = 2048
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)).eval()
    for rows in ([n], [n, n - 300]):
        recorded = trace(model, [torch.randint(67, (length,)).tolist() for length in rows])
        for call in recorded.calls["decoder"]:
            tensors = [t for t in (call.q, call.k, call.v, call.bias, call.sinks) if t is not None]
            tensors += [value for rule in call.mask.terms() for value in vars(rule).values() if hasattr(value, "shape")]
            assert all(t.numel() <= len(rows) * 6 * n * 10 for t in tensors), call
            assert max(t.untyped_storage().nbytes() for t in tensors if isinstance(t, torch.Tensor)) < n * n
        assert "logits" not in recorded.more


@pytest.mark.parametrize(
    "rule",
    [
        masks.full(),
        masks.causal(),
        masks.window(3),
        masks.window(2, 1),
        masks.window(None, 2),
        masks.window(3, None),
        masks.causal() & masks.padding([9, 5]),
        masks.window(2) & masks.padding(np.array([[0, 0, 1, 1, 1, 1, 1, 1, 1], [1] * 9]) > 0),
        masks.padding([9, 2]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n", [9, 4])
def test_a_written_out_mask_is_read_as_the_rule_it_is(rule, n):
    allowed = rule.tensor(n, 9, batch=2).expand(2, 1, n, 9)
    for table in (allowed, torch.where(allowed, 0.0, torch.finfo(torch.float32).min)):
        read, added = hf_attention._read_mask(table)
        assert added is None and not any(isinstance(term, Dense) for term in read.terms())
        assert torch.equal(read.tensor(n, 9, batch=2).expand(2, 1, n, 9), allowed)


def test_a_mask_without_a_rule_stays_dense():
    torch.manual_seed(0)
    allowed = torch.rand(2, 1, 7, 7) < 0.5
    assert torch.equal(hf_attention._read_mask(allowed)[0].tensor(7, batch=2), allowed)
    bias = torch.where(allowed, torch.randn(2, 1, 7, 7), -1e9)
    rule, added = hf_attention._read_mask(bias)
    assert torch.equal(rule.tensor(7, batch=2), allowed) and torch.equal(added[allowed], bias[allowed])
    nobody = torch.zeros(1, 1, 3, 3, dtype=torch.bool)
    assert not hf_attention._read_mask(nobody)[0].tensor(3).any()


def test_a_mask_of_numbers_is_a_bias():
    model = build_family("llama")
    torch.manual_seed(1)
    added = masks.causal().additive(11) + torch.randn(1, 1, 11, 11)
    batch = {"input_ids": torch.tensor(ROWS[:1]), "attention_mask": added}
    recorded = trace(model, batch)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        eager = model(**batch, output_attentions=True).attentions
    for layer, head in ((0, 0), (2, 5)):
        np.testing.assert_allclose(recorded.map(layer, head), eager[layer][0, head].numpy(), atol=1e-5)
    assert repr(recorded.calls["decoder"][0].mask) == "causal()"


@pytest.mark.parametrize("name", ["t5", "llama", "gpt-oss"])
def test_a_saved_trace_is_the_same_trace(name, tmp_path):
    recorded = trace(build_family(name), inputs(name, "left"))
    recorded.save(tmp_path / "t.safetensors")
    again = Trace.load(tmp_path / "t.safetensors")
    assert again.tokens(batch=1) == recorded.tokens(batch=1)
    for part in recorded.parts:
        for item in (0, 1):
            maps = [t.map(1, 3, part=part, batch=item) for t in (recorded, again)]
            np.testing.assert_allclose(*maps, atol=1e-6)


WORDS = "[PAD] [UNK] [BOS] [EOS] the cat sat on a mat because it was tired".split()
WORDS += [f"word{i}" for i in range(len(WORDS), 61)]


@pytest.fixture(scope="module")
def theirs():
    library = Library(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.post_processor = processors.TemplateProcessing("$A [EOS]", special_tokens=[("[EOS]", 3)])
    return lambda **more: transformers.PreTrainedTokenizerFast(
        tokenizer_object=library, unk_token="[UNK]", eos_token="[EOS]", **more
    )


# BERT's learned positions count padding on its left, in transformers too.
@pytest.mark.parametrize(
    ("name", "side"),
    [
        (name, side)
        for name in ("gpt2", "llama", "bert")
        for side in ("left", "right", None)
        if (name, side) != ("bert", "left")
    ],
)
def test_texts_in_a_batch_are_the_texts_alone(name, side, theirs):
    """With the tokenizer's padding on either side, and with ours where it has none (GPT-2's and LLaMA's have none)."""
    tokenizer = theirs() if side is None else theirs(pad_token="[PAD]", padding_side=side)
    model = build_family(name)
    texts = ["the cat sat on the mat because it was tired", "it sat"]
    together = trace(model, texts, tokenizer)
    alone = trace(model, texts[1], tokenizer)
    assert alone.text == texts[1] and alone.tokens().shown == ["it", "sat", "[EOS]"]
    tokens = together.tokens(batch=1)
    assert len(tokens) == 11 and tokens.special.count(True) == 9 and len(tokens.ids) == 11
    at = [tokens.find(word) for word in ("it", "sat", "[EOS]")]
    assert at == ([8, 9, 10] if side == "left" else [0, 1, 2])
    for layer in range(together.n_layer()):
        inner = together.map(layer, 2, batch=1)[np.ix_(at, at)]
        np.testing.assert_allclose(inner, alone.map(layer, 2), atol=1e-5)


def test_our_tokenizer_serves_too():
    tokenizer = Characters.make("abc ", ("bos", "eos"))
    recorded = trace(build_family("llama"), ["ab ca", "b"], tokenizer)
    assert recorded.tokens(batch=0).pieces[-5:] == ("a", "b", " ", "c", "a")
    assert recorded.calls["decoder"][0].q.shape[2] == len(recorded.tokens())


@pytest.mark.parametrize("name", TRANSLATORS)
def test_without_a_target_the_model_generates_it(name, theirs):
    model = build_family(name)
    recorded = trace(model, ROWS)
    generated = model.generate(
        torch.tensor([ROWS[0]]), attention_mask=torch.ones(1, 11), do_sample=False, max_new_tokens=5
    )[0].tolist()
    end = model.config.eos_token_id
    generated = [generated[0], *(generated[1:] if end not in generated[1:] else generated[1 : generated.index(end, 1)])]
    assert list(recorded.tokens("decoder").ids[: len(generated)]) == generated
    assert recorded.tokens("cross", keys=True) == recorded.tokens("encoder")
    written = trace(model, "the cat sat", theirs(pad_token="[PAD]"), target="it was tired")
    start = "[PAD]" if name == "t5" else "word59"
    assert written.tokens("decoder").shown == [start, "it", "was", "tired"]
    assert written.tokens("encoder").shown == ["the", "cat", "sat", "[EOS]"]


def bloom():
    return transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=67, hidden_size=24, n_layer=2, n_head=3))


def with_an_odd_layer():
    class OddAttention(torch.nn.Module):
        def forward(self, hidden_states, **_):
            return hidden_states, None

    model = build_family("llama")
    model.model.layers[1].self_attn = OddAttention()
    return model


@pytest.mark.parametrize(
    ("model", "inputs", "more", "message"),
    [
        (bloom, ROWS, {}, "BloomForCausalLM can't be traced: the attention of BloomAttention"),
        (with_an_odd_layer, ROWS, {}, "LlamaForCausalLM can't be traced: the attention of OddAttention"),
        (lambda: torch.nn.Linear(2, 2), ROWS, {}, "this is a Linear"),
        (lambda: build_family("llama"), {"inputs": [[1]]}, {}, "needs input_ids, or pixel_values .*; it has inputs"),
        (lambda: build_family("llama"), "the cat", {}, "needs a tokenizer"),
        (lambda: build_family("llama"), [[]], {}, "empty|no token|nothing"),
        (lambda: build_family("llama"), [[66, 67]], {}, "67"),
        (lambda: build_family("bart"), [[60, 61]], {}, "61"),
        (lambda: build_family("bart"), [[60]], {"target": [[61]]}, "61"),
        (lambda: build_family("bart"), [[1] * 65], {}, "65 tokens and this model learned 64"),
        (lambda: build_family("gpt2"), [[1] * 42], {}, "42 tokens and this model learned 41"),
        (lambda: build_family("roberta"), [[1] * 42], {}, "42 tokens and this model learned 41"),
        (lambda: build_family("bart"), [[1] * 65], {"target": [[1]]}, "65 tokens and this model learned 64"),
        (lambda: build_family("bart"), ROWS, {"target": [[1]]}, "2 texts and 1 targets"),
        (lambda: build_family("bart").model, ROWS, {}, "BartModel can't say anything by itself"),
    ],
)
def test_untraceable_models_and_inputs_are_refused(model, inputs, more, message):
    with pytest.raises(ValueError, match=message) as caught:
        trace(model(), inputs, **more)
    assert caught.value.say("zh") != str(caught.value)


def test_attention_that_does_more_is_refused(monkeypatch):
    """Maps from q and k alone would be wrong there: an attention that sharpens its q by 1 % is found out."""
    home = inspect.getmodule(transformers.LlamaForCausalLM)
    model = build_family("llama")
    model.set_attn_implementation("eager")
    own = home.eager_attention_forward

    def odd(module, q, k, v, mask, **options):
        return own(module, q * 1.01, k, v, mask, **options)

    monkeypatch.setattr(home, "eager_attention_forward", odd)
    with pytest.raises(ValueError, match="LlamaAttention does more than softmax"):
        trace(model, ROWS[0])


def test_a_projection_with_a_gate_before_it_is_not_recorded():
    model = build_family("llama")
    hook = model.model.layers[1].self_attn.o_proj.register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))
    recorded = trace(model, ROWS[0])
    hook.remove()
    assert sorted(recorded.outputs) == ["decoder.0", "decoder.2"]
    with pytest.raises(ValueError, match="keeps no output projection"):
        recorded.contribution(1, 0, 0)


def hybrid():
    """Attention in layers 1 and 4 of six."""
    config = transformers.JambaConfig(
        vocab_size=67, hidden_size=48, intermediate_size=48, num_hidden_layers=6, num_attention_heads=6
    )
    config = type(config)(**config.to_dict() | dict(num_key_value_heads=2, attn_layer_period=3, attn_layer_offset=1))
    torch.manual_seed(0)
    return transformers.JambaForCausalLM(config).eval()


def test_layers_have_the_models_own_numbers(tmp_path):
    model = hybrid()
    recorded = trace(model, ROWS[0])
    recorded.save(tmp_path / "t.safetensors")
    for each in (recorded, Trace.load(tmp_path / "t.safetensors")):
        assert each.layers() == (1, 4) and each.n_layer() == 2
        np.testing.assert_allclose(each.map(4, 5), recorded.call(4).weights()[0, 5].numpy(), atol=1e-6)
        assert {layer for layer, _, _ in each.find(3, 1)} <= {1, 4}
        assert {row.layer for row in each.patterns().table} == {1, 4}
        assert each.survey().most_telling(each.layers(), range(6))[0] in (1, 4)
        assert sorted(each.outputs) == ["decoder.1", "decoder.4"] and each.contribution(4, 0, 3).shape == (48,)
        with pytest.raises(ValueError, match="layer 0 has no attention in this trace; these have: 1, 4"):
            each.map(0, 0)
    assert recorded.call(4).name == "decoder.4"
    with pytest.raises(ValueError, match="these have: 1, 4"), edit(model, "2.0"):
        pass
    with torch.no_grad(), edit(model, "4.*"):
        edited = trace(model, ROWS[0])
    np.testing.assert_array_equal(edited.map(4, 0), recorded.map(4, 0))


def test_whole_weights_are_saved_and_drawn(tmp_path):
    recorded = trace(bloom(), ROWS, eager=True)
    recorded.save(tmp_path / "t.safetensors", half=True)
    again = Trace.load(tmp_path / "t.safetensors")
    for each in (recorded, again):
        assert each.bare and not any(isinstance(term, Dense) for term in each.call(1).mask.terms())
        np.testing.assert_allclose(each.map(1, 2, batch=1), recorded.map(1, 2, batch=1), atol=1e-6)
        np.testing.assert_allclose(each.map(1, 2, bins=4), recorded.map(1, 2, bins=4), atol=1e-6)
        np.testing.assert_allclose(each.row(1, 2, 4), recorded.map(1, 2)[4], atol=1e-6)
        np.testing.assert_allclose(each.column(1, 2, 4), recorded.map(1, 2)[:, 4], atol=1e-6)
        assert len(each.patterns().table) == 6 and len(each.find(4, 2)) == 6
        for compute in (each.steps, each.difference, each.norms):
            with pytest.raises(ValueError, match="holds the weights alone"):
                compute(1, 2)
        with pytest.raises(ValueError, match="holds the weights alone"):
            each.contribution(1, 2, 4)


def test_the_size_of_whole_weights_is_announced(monkeypatch):
    model = bloom()
    with pytest.warns(Notice, match=r"0.0 MB for 11 tokens") as caught:
        recorded = trace(model, ROWS[0], eager=True)
    assert keeping.bytes_of(model, {"input_ids": torch.tensor(ROWS[:1])}) == sum(
        call.bias.numel() * 4 for call in recorded.calls["decoder"]
    )
    assert caught[0].message.say("zh") != caught[0].message.say("en")
    monkeypatch.setattr(keeping.os, "sysconf", lambda name: 10)
    with pytest.raises(ValueError, match=r"this machine has 0\.0 MB: shorten the text"):
        trace(model, ROWS[0], eager=True)


def test_encoder_states_without_a_text_are_labelled_by_number():
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=71, n_positions=41, n_embd=42, n_layer=2, n_head=6)
    config.add_cross_attention = True
    model = transformers.GPT2LMHeadModel(config).eval()
    batch = {"input_ids": torch.tensor(ROWS[:1]), "encoder_hidden_states": torch.randn(1, 5, 42)}
    for eager in (False, True):
        recorded = trace(model, batch, eager=eager)
        assert recorded.parts == ["decoder", "cross"] and recorded.map(1, 0, part="cross").shape == (11, 5)
        assert recorded.tokens("cross", keys=True).shown == ["[0]", "[1]", "[2]", "[3]", "[4]"]
        assert trace(model, ROWS[0], eager=eager).parts == ["decoder"]


def test_patches_are_called_by_row_and_column():
    torch.manual_seed(0)
    config = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=30)
    model = transformers.ViTModel(transformers.ViTConfig(**config, image_size=24, patch_size=8)).eval()
    recorded = trace(model, {"pixel_values": torch.randn(2, 3, 24, 24)})
    assert recorded.parts == ["encoder"] and recorded.map(1, 2, batch=1).shape == (10, 10)
    assert recorded.tokens().shown[:5] == ["[CLS]", "0,0", "0,1", "0,2", "1,0"]
    assert recorded.tokens().special[:2] == (True, False) and recorded.tokens().find("2,1") == 8
    wide = trace(model, {"pixel_values": torch.randn(1, 3, 16, 32), "interpolate_pos_encoding": True})
    assert wide.tokens().shown == ["[CLS]", *(f"{i},{j}" for i in range(2) for j in range(4))]
    with pytest.raises(ValueError, match="ViTModel was given input_ids and needs pixel_values"):
        trace(model, ROWS[0])


SIGHT = dict(
    hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=30, image_size=24, patch_size=8
)
SPEECH = dict(vocab_size=61, hidden_size=42, num_hidden_layers=3, num_attention_heads=6, intermediate_size=30)
PIXELS = torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(1))
PATCHES = ["[CLS]", *(f"{i},{j}" for i in range(3) for j in range(3))]


def seeing(kind):
    """A small random model that sees, what it is called with, and the maps it gives itself, by part."""
    torch.manual_seed(0)
    ids = torch.tensor([[1, 5, 6, 7, 2], [1, 8, 9, 11, 2]])
    if kind == "ViT":
        model = transformers.ViTForImageClassification(transformers.ViTConfig(**SIGHT))
        return model, {"pixel_values": PIXELS}, lambda output: {"encoder": output.attentions}
    if kind.startswith("CLIP"):
        own = dict(max_position_embeddings=20, bos_token_id=1, eos_token_id=2)
        model = transformers.CLIPModel(transformers.CLIPConfig(text_config=SPEECH | own, vision_config=SIGHT))
        if kind == "CLIP, picture":
            return model, {"pixel_values": PIXELS}, lambda output: {"encoder": output.attentions}
        mask = torch.tensor([[1] * 5, [1, 1, 1, 1, 0]])
        return model, {"input_ids": ids, "attention_mask": mask}, lambda output: {"encoder": output.attentions}
    decoder = transformers.GPT2Config(vocab_size=61, n_positions=20, n_embd=42, n_layer=3, n_head=6)
    if kind == "ViT to BERT":
        decoder = transformers.BertConfig(**SPEECH)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        transformers.ViTConfig(**SIGHT), decoder
    )
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 1, 0, 2
    model = transformers.VisionEncoderDecoderModel(config)
    model.generation_config.update(eos_token_id=2, decoder_start_token_id=1, pad_token_id=0, bos_token_id=1)
    maps = lambda output: dict(  # noqa: E731
        encoder=output.encoder_attentions, decoder=output.decoder_attentions, cross=output.cross_attentions
    )
    return model, {"pixel_values": PIXELS, "decoder_input_ids": ids[:, :4]}, maps


@pytest.mark.parametrize("kind", ["ViT", "CLIP, picture", "CLIP, text", "ViT to GPT-2", "ViT to BERT"])
def test_whatever_a_model_takes_is_traced_as_eager_has_it(kind):
    model, inputs, maps = seeing(kind)
    model.eval()
    recorded = trace(model, inputs=inputs)
    model.set_attn_implementation("eager")
    call = {"CLIP, picture": "vision_model", "CLIP, text": "text_model"}.get(kind)
    with torch.no_grad():
        build_family = (getattr(model, call) if call else model)(**inputs, output_attentions=True)
    for part, layers in maps(build_family).items():
        assert len(recorded.calls[part]) == len(layers) > 0
        for layer, expected in enumerate(layers):
            for item, heads in enumerate(expected):
                for head, table in enumerate(heads):
                    mine = recorded.map(layer, head, part=part, batch=item)
                    np.testing.assert_allclose(mine, table.numpy(), atol=1e-6, err_msg=f"{part} {layer} {head}")
    labels = recorded.tokens("cross" if "cross" in recorded.parts else "encoder", keys=True).shown
    assert labels == (PATCHES if "pixel_values" in inputs else ["[1]", "[5]", "[6]", "[7]", "[2]"])


def test_a_picture_is_captioned_by_the_model_or_by_a_target():
    model, *_ = seeing("ViT to GPT-2")
    model.eval()
    captioned = trace(model, inputs={"pixel_values": PIXELS})  # has 20 places for words
    assert captioned.parts == ["encoder", "decoder", "cross"] and len(captioned.tokens("decoder")) <= 20
    with_target = trace(model, inputs={"pixel_values": PIXELS}, target=[[5, 6, 7], [8, 9]])
    assert with_target.tokens("cross").shown == ["[5]", "[6]", "[7]", "■"]
    assert with_target.map(0, 0, part="cross").shape == (4, 10)


def test_of_two_towers_the_text_is_traced_with_a_notice():
    model, texts, _ = seeing("CLIP, text")
    with pytest.warns(UserWarning, match="reads text and picture apart.* give pixel_values alone"):
        recorded = trace(model.eval(), inputs=texts | {"pixel_values": PIXELS})
    assert len(recorded.calls["encoder"]) == 3


def test_a_text_or_inputs():
    for arguments in ({}, {"given": ROWS[0], "inputs": {"input_ids": ROWS[:1]}}):
        with pytest.raises(ValueError, match="one of the two"):
            trace(build_family("llama"), **arguments)


def test_a_model_that_cannot_generate_needs_a_target(monkeypatch):
    model = build_family("bart")
    monkeypatch.setattr(model, "generate", lambda **_: {}["tgt_lang"])
    with pytest.raises(ValueError, match="BartForConditionalGeneration failed on this input: KeyError: 'tgt_lang'"):
        trace(model, ROWS[0])


def test_a_decoder_with_fewer_positions_than_its_encoder_is_checked_by_its_own(theirs):
    bert = transformers.BertConfig(vocab_size=61, hidden_size=42, num_hidden_layers=1, num_attention_heads=3)
    sides = [type(bert)(**bert.to_dict() | dict(max_position_embeddings=n)) for n in (40, 9)]
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(*sides)
    config.decoder_start_token_id, config.pad_token_id = 2, 0
    model = transformers.EncoderDecoderModel(config).eval()
    recorded = trace(model, [[5] * 30], target=[[6] * 8])
    assert recorded.map(0, 0, part="cross").shape == (9, 30)
    for length, target, message in ((30, 9, "10 tokens and this model learned 9"), (41, 3, "41 tokens .* learned 40")):
        with pytest.raises(ValueError, match=message):
            trace(model, [[5] * length], target=[[6] * target])


def test_an_older_transformers_is_refused(monkeypatch):
    monkeypatch.delattr(transformers.AttentionInterface, "get_interface")
    with pytest.raises(ValueError, match=r"install 5\.1 or newer"):
        trace(build_family("llama"), ROWS[0])


def test_two_threads_are_recorded_separately():
    """While one model is heard, another runs unheard beside it, and each hears its own."""
    models, traces = [build_family("llama"), build_family("gpt2")], [None, None]
    alone = [trace(model, ROWS[0]) for model in models]

    def go(at):
        for _ in range(5):
            traces[at] = trace(models[at], ROWS[0])

    threads = [threading.Thread(target=go, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for first, other in zip(traces, alone, strict=True):
        assert first.n_layer() == other.n_layer()
        np.testing.assert_array_equal(first.map(2, 3), other.map(2, 3))
    assert not hf_attention._replaced and not hf_attention.listeners
