"""An exported folder is the same model in transformers: the same logits, the same ids, and back again."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from qkv import Config, Transformer
from qkv.formats.families import FAMILIES, family_of, from_hf, to_hf
from qkv.formats.hf_export import FILES, export
from qkv.generation.decoding import generate
from qkv.i18n import Problem
from qkv.model.mixture import Experts
from qkv.model.presets import PRESETS
from qkv.text import Bytes, load, train_tokenizer
from tests.disk.full_disk import full_disk

logging.set_verbosity_error()
logging.disable_progress_bar()

LLAMA = Config(vocab=37, width=24, n_layer=2, n_head=4, n_kv_head=2, hidden=20, context=29)
GPT2 = PRESETS["gpt2"].replace(vocab=41, width=21, n_layer=3, n_head=3, hidden=31, context=19, dropout=0.1)
BERT = PRESETS["bert"].replace(vocab=43, width=22, n_layer=2, n_head=2, hidden=27, context=17)
T5 = Config(
    kind="encoder-decoder",
    vocab=41,
    width=22,
    n_layer=2,
    n_decoder_layer=3,
    n_head=3,
    head_width=6,
    hidden=19,
    context=29,
    position="relative",
    relative_buckets=10,
    relative_distance=9,
    attention_scale=1.0,
    output_scale=22**-0.5,
    feed_forward="relu",
)
BART = Config(
    kind="encoder-decoder",
    vocab=39,
    width=21,
    n_layer=3,
    n_decoder_layer=2,
    n_head=3,
    hidden=23,
    context=19,
    position="learned",
    norm="layer",
    norm_place="post",
    norm_eps=1e-5,
    feed_forward="gelu",
    bias=True,
    embedding_norm=True,
    sides="own",
    head_bias=True,
)
MARIAN = BART.replace(
    position="sinusoidal",
    sinusoid="halves",
    embedding_norm=False,
    sides="shared",
    embedding_scale=21**0.5,
    feed_forward="silu",
)
MAMBA2 = Config(
    vocab=37,
    width=24,
    n_layer=2,
    n_head=6,
    head_width=8,
    context=29,
    position="none",
    feed_forward="none",
    mixer="mamba2",
    state_width=5,
    n_state_group=3,
    taps=3,
)
BAMBA = LLAMA.replace(
    n_layer=3, mixer="mamba2 attention mamba2", rotary_fraction=0.5, head_width=8, n_state_head=3, taps=3
)
NEXT = LLAMA.replace(
    n_layer=4,
    mixer="(delta attention)×2",
    norm="rms-centred",
    qk_norm="rms-centred",
    attention_gate=True,
    rotary_fraction=0.5,
    head_width=8,
    n_state_head=6,
    n_state_group=2,
    state_width=5,
    state_head_width=7,
)
MIXTRAL = LLAMA.replace(experts=Experts(5, 3))
GEMMA = LLAMA.replace(
    norm="rms-centred",
    norm_place="both",
    feed_forward="geglu-tanh",
    embedding_scale=24**0.5,
    head_width=10,
    attention_scale=7**-0.5,
    window=4,
    window_layers="window full",
)
NEOX = GPT2.replace(
    width=24, n_head=3, position="rotary", rotary_fraction=0.5, parallel=True, feed_forward="gelu", dropout=0.0
)
DEEPSEEK = LLAMA.replace(
    n_kv_head=None,
    mixer="latent",
    rank=9,
    rope_width=4,
    value_width=5,
    q_rank=11,
    experts=Experts(6, 2, 7, 14, "dense experts", "sigmoid", True, 1.5, 3, 2, True),
)
CASES = {
    "mixtral": ("MixtralForCausalLM", MIXTRAL),
    "qwen3-moe": (
        "Qwen3MoeForCausalLM",
        MIXTRAL.replace(qk_norm="rms", experts=Experts(5, 2, 7, layers="dense experts", normed=False)),
    ),
    "deepseek-v3": ("DeepseekV3ForCausalLM", DEEPSEEK),
    "deepseek-v2, yarn and its scale": (
        "DeepseekV2ForCausalLM",
        DEEPSEEK.replace(
            rank=10,
            experts=Experts(6, 2, 7, 14, normed=False),
            rotary_scaling=dict(kind="yarn", factor=4.0, original=16, stretch=1.1),
            attention_scale=0.4,
        ),
    ),
    "gemma 2": ("Gemma2ForCausalLM", GEMMA.replace(softcap=3.0, output_softcap=5.0)),
    "gemma 3": ("Gemma3ForCausalLM", GEMMA.replace(qk_norm="rms-centred", window_base=77.0, bias="qkv out")),
    "gpt-neox": ("GPTNeoXForCausalLM", NEOX),
    "opt, narrow words": ("OPTForCausalLM", GPT2.replace(embedding_width=9, norm_place="post", feed_forward="relu")),
    "llama, longrope": (
        "LlamaForCausalLM",
        LLAMA.replace(
            rotary_scaling=dict(kind="longrope", short=[1.0, 1.5, 2.0], long=[1.0, 2.0, 4.0], original=9, stretch=1.2)
        ),
    ),
    "llama, dynamic rotary": (
        "LlamaForCausalLM",
        LLAMA.replace(context=9, rotary_scaling=dict(kind="dynamic", factor=3.0, original=9)),
    ),
    "qwen2, a window in some layers": (
        "Qwen2ForCausalLM",
        LLAMA.replace(bias="qkv", window=2, window_layers="full window"),
    ),
    "llama": ("LlamaForCausalLM", LLAMA),
    "llama, wide heads, a bias everywhere": ("LlamaForCausalLM", LLAMA.replace(head_width=10, bias=True)),
    "llama, geglu, another base": ("LlamaForCausalLM", LLAMA.replace(feed_forward="geglu", rotary_base=77.0)),
    "llama, linear rotary": ("LlamaForCausalLM", LLAMA.replace(rotary_scaling=dict(kind="linear", factor=3.0))),
    "llama, ntk rotary": ("LlamaForCausalLM", LLAMA.replace(rotary_scaling=dict(kind="ntk", factor=3.0))),
    "llama, llama3 rotary": (
        "LlamaForCausalLM",
        LLAMA.replace(rotary_scaling=dict(kind="llama3", factor=4.0, low=1.0, high=4.0, original=16)),
    ),
    "llama, yarn rotary": (
        "LlamaForCausalLM",
        LLAMA.replace(rotary_scaling=dict(kind="yarn", factor=4.0, original=64, fast=8.0, slow=2.0, stretch=1.2)),
    ),
    "mistral": ("MistralForCausalLM", LLAMA.replace(window=3)),
    "mistral, heads that don't divide the width": (
        "MistralForCausalLM",
        LLAMA.replace(width=25, n_head=6, n_kv_head=3, head_width=8),
    ),
    "qwen2": ("Qwen2ForCausalLM", LLAMA.replace(bias="qkv")),
    "qwen2, wide heads, a window": ("Qwen2ForCausalLM", LLAMA.replace(bias="qkv", head_width=10, window=2)),
    "qwen3": ("Qwen3ForCausalLM", LLAMA.replace(qk_norm="rms", norm_eps=1e-3)),
    "qwen3, narrow heads, a window": ("Qwen3ForCausalLM", LLAMA.replace(qk_norm="rms", head_width=4, window=2)),
    "mamba2": ("Mamba2ForCausalLM", MAMBA2),
    "mamba2, of a size that says itself": ("Mamba2ForCausalLM", MAMBA2.replace(n_state_group=None, state_width=None)),
    "bamba": ("BambaForCausalLM", BAMBA),
    "bamba, turned by a scaled quarter": (
        "BambaForCausalLM",
        BAMBA.replace(rotary_fraction=0.25, rotary_scaling=dict(kind="linear", factor=3.0)),
    ),
    "qwen3-next": ("Qwen3NextForCausalLM", NEXT),
    "qwen3-next, the whole of yarn": (
        "Qwen3NextForCausalLM",
        NEXT.replace(rotary_fraction=1.0, rotary_scaling=dict(kind="yarn", factor=4.0, original=64)),
    ),
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gpt2, no bias, squared relu": ("GPT2LMHeadModel", GPT2.replace(bias=False, feed_forward="relu2")),
    "bert": ("BertForMaskedLM", BERT),
    "bert, no types, a bias on q, k, v": ("BertForMaskedLM", BERT.replace(token_types=0, bias="qkv")),
    "bert, a pooler and no head": ("BertModel", BERT.replace(head="none", pooler=True)),
    "t5": ("T5ForConditionalGeneration", T5),
    "t5, gated": ("T5ForConditionalGeneration", T5.replace(feed_forward="geglu-tanh")),
    "bart": ("BartForConditionalGeneration", BART),
    "bart, no bias, one for both sides": (
        "BartForConditionalGeneration",
        BART.replace(bias=False, head_bias=False, sides="shared"),
    ),
    "mbart": ("MBartForConditionalGeneration", BART.replace(norm_place="pre", embedding_scale=21**0.5)),
    "marian": ("MarianMTModel", MARIAN),
}
EXACT = (
    "gpt2",
    "bert",
    "bart",
    "mbart",
)  # transformers computes RMS norm and rotary tables in float32, whatever the model is in
LOOPS = ("mamba2", "bamba", "qwen3-next", "gemma")  # and theirs; and the scale of word vectors
each = pytest.mark.parametrize("case", CASES)


def random_model(config, dtype=torch.float64):
    """A model in which no weight is what it was born as."""
    model = Transformer(config).to(dtype).eval()
    for name, parameter in model.named_parameters():
        # Large enough that what it says depends on what it reads; T5 makes its states small before the head.
        spread = 0.1 if config.output_scale == 1.0 else 0.2
        nn.init.normal_(parameter, mean=float("norm.weight" in name), std=spread)
    return model


def exported(model, tokenizer, folder):
    export(model, tokenizer, folder)
    return folder


def theirs(folder, **kwargs):
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    auto_classes = dict(CausalLM=AutoModelForCausalLM, LMHeadModel=AutoModelForCausalLM, MaskedLM=AutoModelForMaskedLM)
    auto_classes |= dict(
        ConditionalGeneration=AutoModelForSeq2SeqLM, MTModel=AutoModelForSeq2SeqLM, BertModel=AutoModel
    )
    auto = next(auto for ending, auto in auto_classes.items() if name.endswith(ending))
    model, info = auto.from_pretrained(folder, output_loading_info=True, **kwargs)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    if hasattr(model.config, "num_experts_per_tok"):
        model.set_experts_implementation("eager")  # the one that takes float64
    return model.eval()


def real(padding, n=13):
    """Which tokens of a batch of two are real; both longer than any window here."""
    mask = torch.ones(2, n, dtype=torch.bool)
    if padding == "right":
        mask[1, -4:] = False
    elif padding == "left":
        mask[1, :4] = False
    return mask


def headed(config, tied):
    """The same with its head tied or not, where the layout has both."""
    if config.kind != "encoder-decoder":
        return config.replace(tied=tied)
    if config.position != "relative":
        return config
    return config.replace(tied=tied, output_scale=config.width**-0.5 if tied else 1.0)


def logits_of_both(model, loaded, ids, mask=None):
    """What ours and theirs say; an encoder-decoder reads ids as its source, and writes some of them."""
    mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
    inputs = dict(input_ids=ids, attention_mask=mask.long())
    if model.config.kind == "encoder-decoder":
        return model(ids[:, 3:11], ids, source_mask=mask), loaded(**inputs, decoder_input_ids=ids[:, 3:11]).logits
    at = (mask.cumsum(1) - 1).clamp(min=0) if loaded.config.model_type == "opt" else None  # which counts real tokens
    ours, their = model(ids, mask=mask, at=at)[mask], loaded(**inputs)
    their = their.last_hidden_state if model.config.head == "none" else their.logits
    return ours, their[mask].to(ours.dtype)  # Mamba-2 says float32, whatever it is in


@each
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@torch.no_grad()
def test_the_same_logits_in_transformers(case, tied, tmp_path):
    architecture, config = CASES[case]
    model = random_model(headed(config, tied))
    loaded = theirs(exported(model, None, tmp_path / "out"))
    assert type(loaded).__name__ == architecture and loaded.dtype == torch.float64
    atol = 1e-10 if case.startswith(EXACT) else 3e-5 if case.startswith(LOOPS) else 1e-6
    # In float64 theirs masks by a number that is −∞ to its softmax, in float32: a row of padding is NaN, and so is the rest.
    paddings = ("none", "right") if loaded.config._attn_implementation == "eager" else ("none", "right", "left")
    for padding in paddings:
        mask = real(padding)
        ids = torch.randint(config.vocab, mask.shape)
        ours, their = logits_of_both(model, loaded, ids, mask)
        assert ours.std() > 0.1  # else any two models would be equal
        torch.testing.assert_close(ours, their, atol=atol, rtol=0)


@each
@torch.no_grad()
def test_the_same_logits_in_float32(case, tmp_path):
    model = random_model(CASES[case][1], torch.float32)
    loaded = theirs(exported(model, None, tmp_path / "out"))
    assert loaded.dtype == torch.float32
    ids = torch.randint(model.config.vocab, (2, 13))
    torch.testing.assert_close(*logits_of_both(model, loaded, ids), atol=1e-4, rtol=0)


@torch.no_grad()
def test_token_types_are_berts(tmp_path):
    model = random_model(BERT)
    loaded = theirs(exported(model, None, tmp_path / "out"))
    ids, types = torch.randint(43, (2, 9)), torch.randint(2, (2, 9))
    ours = model(ids, types=types)
    torch.testing.assert_close(ours, loaded(ids, token_type_ids=types).logits, atol=1e-10, rtol=0)
    assert not torch.allclose(ours, model(ids))
    assert torch.equal(model(ids), model(ids, types=torch.zeros_like(ids)))


@each
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@torch.no_grad()
def test_back_again(case, tied, tmp_path):
    model = random_model(headed(CASES[case][1], tied))
    folder = exported(model, None, tmp_path / "out")
    saved = load_file(folder / "model.safetensors")
    config, state = from_hf(json.loads((folder / "config.json").read_text()), saved)
    again = Transformer(config).double().eval()
    again.load_state_dict(state)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, dict(again.named_parameters())[name]), name
    ids = [torch.randint(config.vocab, (2, 13)) for _ in range(1 + (config.kind == "encoder-decoder"))]
    torch.testing.assert_close(again(*ids), model(*ids), atol=1e-12, rtol=0)
    if not any(
        word in case for word in ("no ", "ntk", "a bias on", "its scale")
    ):  # those are written as what they amount to
        assert config == model.config.replace(init=config.init)


@pytest.mark.parametrize(
    "case",
    ["llama", "mistral", "qwen2", "qwen3, narrow heads, a window", "gpt2", "bert", "t5", "bart", "marian", *LOOPS[:3]],
)
@torch.no_grad()
def test_what_transformers_saves_reads_the_same(case, tmp_path):
    loaded = theirs(exported(random_model(CASES[case][1]), None, tmp_path / "out"))
    loaded.save_pretrained(tmp_path / "theirs")
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    config, state = from_hf(config, load_file(tmp_path / "theirs" / "model.safetensors"))
    again = Transformer(config).double().eval()
    again.load_state_dict(state)
    ids = torch.randint(config.vocab, (2, 13))
    atol = 1e-10 if case.startswith(EXACT) else 3e-5 if case.startswith(LOOPS) else 1e-6
    torch.testing.assert_close(*logits_of_both(again, loaded, ids), atol=atol, rtol=0)


TEXT = "The cat sat on the mat.  人工智能，你好！\n\tdef f(x): return x² … naïve 🙂"


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe"])
@pytest.mark.parametrize("case", ["llama", "mistral", "qwen2", "qwen3", "gpt2", "bert", "t5", "bart", "marian"])
@pytest.mark.filterwarnings("ignore:this is the Qwen2 layout")
def test_the_same_ids_in_transformers(case, kind, tmp_path):
    special = ["pad", "bos", "eos", "mask", "unk"]
    tokenizer = train_tokenizer(kind, [TEXT * 9], vocab=290 if kind == "bpe" else None, special=special)
    model = random_model(CASES[case][1].replace(vocab=tokenizer.vocab + 3))
    folder = exported(model, tokenizer, tmp_path / "out")
    auto = PreTrainedTokenizerFast if case == "qwen2" else AutoTokenizer
    loaded = auto.from_pretrained(folder)
    assert loaded(TEXT)["input_ids"] == tokenizer.encode(TEXT)
    assert loaded("at [MASK] mat[EOS]")["input_ids"] == tokenizer.encode("at [MASK] mat[EOS]", special=True)
    assert loaded.decode(tokenizer.encode(TEXT)) == TEXT
    assert loaded.model_max_length == model.config.context
    ids = ("bos_token_id", "eos_token_id", "pad_token_id")
    expected = [tokenizer.bos, tokenizer.eos, tokenizer.pad]
    assert [getattr(loaded, name) for name in ids] == expected
    assert [getattr(theirs(folder).config, name) for name in ids] == expected
    assert load(folder).encode(TEXT) == tokenizer.encode(TEXT)


@pytest.mark.parametrize("case", ["t5", "bart", "marian"])
def test_a_translator_begins_and_ends_in_transformers_as_it_does_here(case, tmp_path):
    """Left to itself, theirs begins with the token that ours does, and ends where ours does."""
    tokenizer = train_tokenizer("characters", [TEXT], special=["pad", "bos", "eos", "unk"])
    # theirs has no cache for a decoder that is deeper than the encoder
    model = random_model(CASES[case][1].replace(vocab=tokenizer.vocab, n_decoder_layer=1))
    loaded = theirs(exported(model, tokenizer, tmp_path / "out"))
    assert loaded.generation_config.decoder_start_token_id == tokenizer.start == tokenizer.bos
    sources = [tokenizer.encode("the cat")[:7], tokenizer.encode("on a mat")[:7]]
    outputs = loaded.generate(torch.tensor(sources), max_new_tokens=9, do_sample=False, num_beams=1).tolist()
    ours = generate(model, [[tokenizer.start]] * 2, most=9, source=sources, stop=tokenizer.ends)
    until = [row[1:].index(tokenizer.eos) + 1 if tokenizer.eos in row[1:] else 10 for row in outputs]
    assert [row[1:n] for row, n in zip(outputs, until, strict=True)] == ours
    assert {row[0] for row in outputs} == {tokenizer.bos}


def test_the_layout_for_which_transformers_builds_another_tokenizer_warns(tmp_path):
    tokenizer = train_tokenizer("characters", [TEXT])
    model = random_model(CASES["qwen2"][1].replace(vocab=tokenizer.vocab))
    with pytest.warns(UserWarning, match="load this one with PreTrainedTokenizerFast"):
        folder = exported(model, tokenizer, tmp_path / "out")
    assert AutoTokenizer.from_pretrained(folder)(TEXT)["input_ids"] != tokenizer.encode(TEXT)  # else it need not warn


def test_without_a_tokenizer_no_family_default_remains(tmp_path):
    for case in ("llama", "gpt2", "bert"):
        config = theirs(exported(random_model(CASES[case][1]), None, tmp_path / case)).config
        assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == (None, None, None)


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "classic"])
def test_presets_fit_a_layout(name):
    family = family_of(PRESETS[name])
    assert family in FAMILIES
    assert not name.startswith("tiny-") or name.removeprefix("tiny-").replace("-", "_") in family.types


def test_transformers_4_finds_its_names(tmp_path):
    scaling = dict(kind="llama3", factor=4.0, low=1.0, high=4.0, original=16)
    config, _ = to_hf(
        LLAMA.replace(rotary_base=77.0, rotary_scaling=scaling), dict(random_model(LLAMA).named_parameters())
    )
    assert config["rope_theta"] == 77.0
    assert config["rope_scaling"] == dict(
        rope_type="llama3",
        factor=4.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=16,
    )
    assert config["rope_parameters"] == config["rope_scaling"] | {"rope_theta": 77.0}


REFUSED = {
    "an encoder-decoder like LLaMA": (
        LLAMA.replace(kind="encoder-decoder"),
        r"nearest is T5.*position='relative' \(here 'rotary'\); .*attention_scale=1.0.*n_kv_head=4 \(here 2\)",
    ),
    "a T5 that scales no output": (T5.replace(output_scale=1.0), r"T5.*output_scale=0\.2\d* \(here 1\.0\)"),
    "a BART without its norm": (BART.replace(embedding_norm=False), r"BART.*embedding_norm=True \(here False\)"),
    "a BART with a head of its own": (BART.replace(tied=False), r"BART.*tied=True, or source_vocab \(here False\)"),
    "a Marian with sines in pairs": (MARIAN.replace(sinusoid="pairs"), r"BART.*sinusoid='halves' \(here 'pairs'\)"),
    "a scale that is none of BART's": (BART.replace(embedding_scale=3.0), r"embedding_scale = 1 \| √width \(here 3.0"),
    "a scale of the scores": (LLAMA.replace(attention_scale=0.3), r"LLaMA.*attention_scale=None \(here 0.3\)"),
    "a bias of the logits": (GPT2.replace(head_bias=True), r"GPT-2.*head_bias=False \(here True\)"),
    "bert with a pooler and a head": (
        BERT.replace(pooler=True),
        r"pooler=False, or head='none' \(here True and 'mlm'\)",
    ),
    "a decoder with layer norm": (LLAMA.replace(norm="layer"), r"nearest is LLaMA.*norm='rms' \(here 'layer'\)"),
    "alibi": (LLAMA.replace(position="alibi"), r"LLaMA.*position='rotary' \(here 'alibi'\)"),
    "relu2 with rotary": (LLAMA.replace(feed_forward="relu2"), "feed_forward='swiglu' or feed_forward='geglu'"),
    "layer norm on q and k": (LLAMA.replace(qk_norm="layer"), r"qk_norm=None or qk_norm='rms' \(here 'layer'\)"),
    "qk_norm and a bias": (LLAMA.replace(qk_norm="rms", bias="qkv"), r"bias=False, or qk_norm=None \(here 'qkv'"),
    "a window and a bias": (LLAMA.replace(window=3, bias=True), r"or window=None \(here True and 3\)"),
    "a bias and odd heads": (
        LLAMA.replace(width=25, head_width=8, bias=True),
        r"heads that divide the width \(here True and n_head=4\)",
    ),
    "latent attention": (LLAMA.replace(mixer="latent", n_kv_head=None), "mixer='attention'"),
    "scaled embeddings": (LLAMA.replace(embedding_scale=2.0), r"embedding_scale=1.0 \(here 2.0\)"),
    "retention": (LLAMA.replace(mixer="retention", n_kv_head=None), r"Mamba-2.*|LLaMA.*mixer="),
    "mamba2 with a feed-forward": (
        MAMBA2.replace(feed_forward="swiglu"),
        r"Mamba-2.*feed_forward='none' \(here 'swiglu'\)",
    ),
    "mamba2 of odd width": (
        MAMBA2.replace(n_state_head=5, n_state_group=None),
        r"n_state_head × state_head_width = 2 × width \(here 5 × 8 and 24\)",
    ),
    "a gate": (LLAMA.replace(attention_gate=True), r"LLaMA.*attention_gate=False \(here True\)"),
    "half turned": (LLAMA.replace(rotary_fraction=0.5, head_width=8), r"rotary_fraction=1.0 \(here 0.5\)"),
    "a hybrid with plain norms": (NEXT.replace(norm="rms"), r"Qwen3-Next.*norm='rms-centred' \(here 'rms'\)"),
    "delta without attention": (
        NEXT.replace(mixer="delta", n_kv_head=None, qk_norm=None, attention_gate=False, rotary_fraction=1.0),
        "no published layout holds this model",
    ),
    "gpt2 with shared heads": (GPT2.replace(n_head=3, n_kv_head=1), r"GPT-2.*n_kv_head=3 \(here 1\)"),
    "gpt2 with wide heads": (GPT2.replace(head_width=9), r"head_width × n_head = width \(here 9 × 3 and 21\)"),
    "gpt2 with norms on both sides": (GPT2.replace(norm_place="both"), r"GPT-2.*norm_place='pre' \(here 'both'\)"),
    "experts, with a layer norm on q and k": (
        MIXTRAL.replace(qk_norm="layer"),
        r"Mixtral.*qk_norm=None or qk_norm='rms'",
    ),
    "experts of which one is shared": (
        MIXTRAL.replace(experts=Experts(5, 3, shared=7)),
        r"Mixtral.*experts.shared=None \(here 7\)",
    ),
    "a Gemma with a scale of its own": (GEMMA.replace(embedding_scale=3.0), r"Gemma.*embedding_scale = √width"),
    "a Gemma 1 whose gate is exact": (  # transformers takes the word for the approximation there
        LLAMA.replace(norm="rms-centred", embedding_scale=24**0.5, feed_forward="geglu"),
        r"Gemma.*feed_forward='geglu-tanh' \(here 'geglu'\)",
    ),
    "a Gemma 3 with capped scores": (
        GEMMA.replace(qk_norm="rms-centred", softcap=2.0),
        r"Gemma.*softcap=None \(here 2.0\)",
    ),
    "a window in some layers of a LLaMA": (
        LLAMA.replace(window=3, window_layers="window full"),
        r"LLaMA.*window_layers='window', or bias='qkv' \(here 'window full' and False\)",
    ),
    "a bias on the output alone": (LLAMA.replace(bias="out"), r"LLaMA.*bias=False | True .* \(here 'out'\)"),
    "gpt2 with a window": (GPT2.replace(window=3), r"GPT-2.*window=None \(here 3\)"),
    "bert without its head": (BERT.replace(head="linear"), r"BERT.*head='mlm' or head='none'.* \(here 'linear'\)"),
    "bert without its norm": (BERT.replace(embedding_norm=False), r"BERT.*embedding_norm=True \(here False\)"),
    "the classic encoder": (PRESETS["classic"], r"BERT.*position='learned'.*embedding_norm=True.*head='mlm'.*train it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unsupported_configs_are_refused_with_reasons(case, tmp_path):
    config, sentence = REFUSED[case]
    with pytest.raises(ValueError, match=sentence) as refusal:
        family_of(config)
    assert "（这里是 " in refusal.value.say("zh") and "(here" not in refusal.value.say("zh")
    with torch.device("meta"):
        model = Transformer(config)
    with pytest.raises(ValueError, match=sentence):
        export(model, None, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def hf_checkpoint(case="llama", **changes):
    model = random_model(CASES[case][1])
    config, tensors = to_hf(model.config, dict(model.named_parameters()))
    return config | changes, tensors


UNREADABLE = {
    "another family": (dict(model_type="lama"), "'lama' is not one of llama, .*did you mean 'llama'"),
    "proportional rotary": (
        dict(rope_parameters=dict(rope_type="proportional", factor=2.0)),
        "'proportional' is not supported: qkv reads linear",
    ),
    "yarn with more": (
        dict(rope_parameters=dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=9, truncate=False)),
        "truncate is False in this config.json: qkv reads it with True only",
    ),
    "a strange activation": (dict(hidden_act="mish"), "activation 'mish' is not supported: qkv reads silu, gelu"),
    "two numbers of experts": (
        dict(model_type="mixtral", num_local_experts=4, num_experts=5),
        "num_local_experts and num_experts differ",
    ),
    "a Gemma that sees both ways": (
        dict(model_type="gemma2", use_bidirectional_attention=True),
        "use_bidirectional_attention is True",
    ),
    "a DeepSeek that routes otherwise": (
        dict(model_type="deepseek_v3", rope_interleave=False, qk_nope_head_dim=4),
        "rope_interleave is False",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_unsupported_hf_configs_are_refused(case):
    changes, sentence = UNREADABLE[case]
    with pytest.raises(ValueError, match=sentence):
        from_hf(*hf_checkpoint(**changes))


def test_missing_or_extra_weights_are_refused():
    config, tensors = hf_checkpoint()
    with pytest.raises(ValueError, match=r"not a complete LLaMA: missing model\.norm\.weight"):
        from_hf(config, {name: tensor for name, tensor in tensors.items() if name != "model.norm.weight"})
    with pytest.raises(ValueError, match="there is also extra"):
        from_hf(config, tensors | {"extra": torch.zeros(1)})
    from_hf(config, tensors | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(3)})
    del config["hidden_size"]
    with pytest.raises(ValueError, match="lacks 'hidden_size', which a llama needs"):
        from_hf(config, tensors)


def test_a_wrong_format_or_tokenizer_is_refused(tmp_path):
    with pytest.raises(ValueError, match="to 'hff' is not one of hf; did you mean 'hf'"):
        export(random_model(LLAMA), None, tmp_path / "out", to="hff")
    with pytest.raises(ValueError, match="the tokenizer has 256 tokens and the model 37"):
        export(random_model(LLAMA), Bytes.make(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_token_types_need_an_encoder_with_types():
    with pytest.raises(ValueError, match="token_types=2 belongs to an encoder"):
        LLAMA.replace(token_types=2)
    with pytest.raises(ValueError, match="token_types=0: leave them out"):
        random_model(BERT.replace(token_types=0))(torch.zeros(1, 3, dtype=int), types=torch.zeros(1, 3, dtype=int))
    with pytest.raises(ValueError, match="only an encoder has token types"):
        random_model(LLAMA)(torch.zeros(1, 3, dtype=int), types=torch.zeros(1, 3, dtype=int))


def test_an_earlier_export_is_replaced_and_nothing_else(tmp_path):
    folder = tmp_path / "deep" / "out"
    export(random_model(LLAMA.replace(vocab=300)), Bytes.make(), folder)
    assert sorted(file.name for file in folder.iterdir()) == sorted(FILES)
    assert export(random_model(GPT2), None, folder) == "gpt2"
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert json.loads((folder / "config.json").read_text())["model_type"] == "gpt2"
    assert [path.name for path in folder.parent.iterdir()] == ["out"]

    (folder / "README.md").write_text("mine")
    with pytest.raises(Problem, match=r"holds README\.md, which no export of qkv wrote"):
        export(random_model(GPT2), None, folder)
    other = tmp_path / "a model of someone else"
    other.mkdir()
    export(random_model(GPT2), None, other)  # an empty folder is free to use
    (other / "config.json").write_text("{}")
    with pytest.raises(Problem, match=r"holds config\.json, model\.safetensors"):
        export(random_model(GPT2), None, other)
    with pytest.raises(Problem, match="is a file"):
        export(random_model(GPT2), None, other / "config.json")


def test_a_full_disk_leaves_what_was_there(tmp_path):
    before = exported(random_model(LLAMA), None, tmp_path / "out") / "model.safetensors"
    content = before.read_bytes()
    for name in ("out", "new"):
        with full_disk(20_000), pytest.raises(OSError, match="File too large") as refused:
            export(random_model(LLAMA), None, tmp_path / name)
        assert refused.value.filename == str(tmp_path / name)
    assert before.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("moment", ["save_tensors", "flush_folder", "second rename"])
def test_ctrl_c_leaves_what_was_there(moment, tmp_path, monkeypatch):
    before = exported(random_model(LLAMA), None, tmp_path / "out") / "model.safetensors"
    content = before.read_bytes()

    def stop(*args):
        raise KeyboardInterrupt

    if moment == "second rename":
        rename = Path.rename
        monkeypatch.setattr(Path, "rename", lambda self, to: stop() if self.name == "new" else rename(self, to))
    else:
        monkeypatch.setattr(f"qkv.formats.hf_export.{moment}", stop)
    with pytest.raises(KeyboardInterrupt):
        export(random_model(LLAMA), None, tmp_path / "out")
    monkeypatch.undo()
    assert before.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
