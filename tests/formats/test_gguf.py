"""A GGUF file is the same model that it was made from, and a header that lies is refused before it costs anything."""

import struct
from pathlib import Path

import gguf as package
import numpy as np
import pytest
import torch
from gguf.quants import dequantize

from qkv.formats import gguf, model_files
from qkv.formats.gguf_layouts import HARMLESS
from qkv.i18n import Problem
from qkv.library import store

from .files import ARCHITECTURES, KINDS, LLAMA, hf_model, llama3_divisors, rounded, write_gguf

ALL = ("llama", "qwen2", "qwen3", "gpt2", "bert")


def build(file, dtype=torch.float32):
    contents = gguf.read(file)
    return model_files.build(file, contents.config, contents.tensors, dtype)


def logits(model, ids):
    with torch.no_grad():
        out = model(input_ids=ids)
    return out.logits if hasattr(out, "logits") else out.last_hidden_state


def words(model, length=30):
    return torch.randint(model.config.vocab_size, (2, length), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALL)
def test_the_model_equals_its_source(name, kind, tmp_path):
    theirs = hf_model(name)
    file = write_gguf(theirs, tmp_path / "m.gguf", kind)
    contents, state = gguf.read(file), rounded(theirs, kind).state_dict()
    for key, tensor in contents.tensors.items():
        assert torch.equal(tensor, state[key]), key
        assert tuple(tensor.shape) == contents.tensors.shapes[key]
    ids = words(theirs)
    with torch.no_grad():
        torch.testing.assert_close(build(file)(ids), logits(theirs, ids), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ("f32", "q8_0"))
@pytest.mark.parametrize("name", ("mixtral", "qwen3_moe"))
def test_experts_that_are_stacked_come_apart(name, kind, tmp_path):
    theirs = hf_model(name)
    file = write_gguf(theirs, tmp_path / "m.gguf", kind)
    ours, ids = build(file), words(theirs)
    assert ours.config.experts.count == 5 and ours.config.experts.per_token == 3
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), logits(rounded(theirs, kind), ids), atol=2e-5, rtol=1e-4)


SPECIAL_FAMILIES = ("gemma", "gemma2", "gemma3_text", "phi3", "gpt_neox", "deepseek_v2", "deepseek_v3")


@pytest.mark.parametrize("kind", ("f32", "q8_0"))
@pytest.mark.parametrize("name", SPECIAL_FAMILIES)
def test_families_with_special_layouts(name, kind, tmp_path):
    """Norms with 1 added, rows in another order, matrices fused or cut in two, angles of two bases."""
    theirs = hf_model(name)
    file = write_gguf(theirs, tmp_path / "m.gguf", kind)
    ours, ids = build(file), words(theirs)
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), logits(rounded(theirs, kind), ids), atol=5e-5, rtol=1e-4)


LONG = dict(
    rope_type="longrope",
    rope_theta=5000.0,
    short_factor=[1.0 + 0.1 * i for i in range(12)],
    long_factor=[2.0 + 0.3 * i for i in range(12)],
    partial_rotary_factor=0.75,
)
YARN = dict(
    rope_type="yarn",
    rope_theta=5000.0,
    factor=4.0,
    original_max_position_embeddings=16,
    mscale=0.7,
    mscale_all_dim=0.7,
)
MORE = {
    "a Gemma 3 without a cap, as published": ("gemma3_text", dict(final_logit_softcapping=None)),
    "a Gemma 3 with a head of its own": ("gemma3_text", dict(tie_word_embeddings=False)),
    "a Gemma 2 of 46 layers": ("gemma2", dict(num_hidden_layers=46, num_attention_heads=4, query_pre_attn_scalar=24)),
    "a Phi-3 for long texts": (
        "phi3",
        dict(
            rope_parameters=LONG, original_max_position_embeddings=16, max_position_embeddings=64, sliding_window=None
        ),
    ),
    "a GPT-NeoX, one after the other": ("gpt_neox", dict(use_parallel_residual=False)),
    "a DeepSeek-V2 Lite": (
        "deepseek_v2",
        dict(q_lora_rank=None, topk_method="greedy", n_group=1, topk_group=1, rope_parameters=YARN),
    ),
    "a DeepSeek-V3 with YaRN, shares as they are": ("deepseek_v3", dict(rope_parameters=YARN, norm_topk_prob=False)),
}


@pytest.mark.parametrize("case", MORE)
def test_a_family_with_other_settings(case, tmp_path):
    name, settings = MORE[case]
    theirs = hf_model(name, **settings)
    ours, ids = build(write_gguf(theirs, tmp_path / "m.gguf")), words(theirs)
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), logits(theirs, ids), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ("deepseek_v2", "deepseek_v3"))
def test_an_old_deepseek_has_a_single_kv_b_matrix(name, tmp_path):
    theirs = hf_model(name)
    new, old = (write_gguf(theirs, tmp_path / f"{word}.gguf", legacy=word == "old") for word in ("new", "old"))
    assert "blk.0.attn_kv_b.weight" in gguf.header(old)[1] and "blk.0.attn_k_b.weight" in gguf.header(new)[1]
    ids = words(theirs)
    with torch.no_grad():
        assert torch.equal(build(old)(ids), build(new)(ids))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("qwen3_moe", {}),
        ("gemma2", dict(head_dim=256, attn_logit_softcapping=50.0, final_logit_softcapping=30.0)),
        ("gemma3_text", dict(head_dim=256, final_logit_softcapping=None, num_hidden_layers=7)),
        ("phi3", dict(sliding_window=None)),
    ],
    ids=["qwen3moe", "gemma2", "gemma3", "phi3"],
)
def test_the_file_is_what_transformers_reads_in_it(name, settings, tmp_path):
    """Its reader is nobody's here: it knows neither caps nor windows other than the published ones."""
    from transformers import AutoModelForCausalLM

    if name == "gemma3_text":
        settings = settings | dict(rope_parameters=PUBLISHED_BASES)
    file = write_gguf(hf_model(name, **settings), tmp_path / "m.gguf", "q8_0", extra=lambda w: w.add_pad_token_id(0))
    theirs = AutoModelForCausalLM.from_pretrained(str(tmp_path), gguf_file=file.name, dtype=torch.float32)
    ids = words(theirs)
    with torch.no_grad():
        torch.testing.assert_close(build(file)(ids), theirs.eval()(ids).logits, atol=2e-4, rtol=1e-4)


PUBLISHED_BASES = {
    "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}


@pytest.mark.parametrize("name", ("llama", "qwen2", "gpt2"))
def test_a_head_that_is_absent_is_the_embedding(name, tmp_path):
    theirs = hf_model(name, tie_word_embeddings=True)
    file = write_gguf(theirs, tmp_path / "m.gguf")
    ours, ids = build(file), words(theirs)
    assert gguf.read(file).config["tie_word_embeddings"] and ours.head.weight is ours.embedding.weight
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), logits(theirs, ids), atol=2e-5, rtol=1e-4)


def test_biases_of_a_llama_are_permuted_with_its_rows(tmp_path):
    theirs = hf_model("llama", attention_bias=True, mlp_bias=True)
    ours, ids = build(write_gguf(theirs, tmp_path / "m.gguf", "q8_0")), words(theirs)
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), logits(rounded(theirs, "q8_0"), ids), atol=2e-5, rtol=1e-4)


PUBLISHED = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
ODD = dict(factor=3.0, low_freq_factor=1.0, high_freq_factor=5.0, original_max_position_embeddings=600)


@pytest.mark.parametrize("settings", (PUBLISHED, ODD), ids=("as published", "odd numbers"))
def test_llama3_scaling_is_read_from_its_divisors(settings, tmp_path):
    rope = dict(rope_type="llama3", rope_theta=9000.0, **settings)
    theirs = hf_model("llama", head_dim=32, rope_parameters=rope, max_position_embeddings=1000)
    divisors = llama3_divisors(theirs.config)
    assert 1 < np.unique(divisors).size
    file = write_gguf(theirs, tmp_path / "m.gguf", extra=lambda w: w.add_tensor("rope_freqs.weight", divisors))
    ours, ids = build(file), words(theirs, 60)
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), logits(theirs, ids), atol=1e-4, rtol=1e-4)
    frequencies = torch.tensor(ours.decoder[0].attention.position.frequencies, dtype=torch.float64)
    torch.testing.assert_close(frequencies, theirs.model.rotary_emb.inv_freq.double(), atol=0, rtol=1e-6)
    strange = divisors[::-1].copy()
    file = write_gguf(theirs, tmp_path / "n.gguf", extra=lambda w: w.add_tensor("rope_freqs.weight", strange))
    with pytest.raises(Problem, match="not LLaMA 3's scaling"):
        gguf.read(file)


def test_linear_and_yarn_scaling(tmp_path):
    yarn = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, rope_theta=5000.0)
    linear = dict(rope_type="linear", factor=3.0, rope_theta=5000.0)
    kinds = package.RopeScalingType
    for rope, kind in ((yarn, kinds.YARN), (linear, kinds.LINEAR)):
        theirs = hf_model("llama", head_dim=16, rope_parameters=rope, max_position_embeddings=256)

        def extra(writer, rope=rope, kind=kind):
            writer.add_rope_scaling_type(kind)
            writer.add_rope_scaling_factor(rope["factor"])
            if "original_max_position_embeddings" in rope:
                writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])

        file, ids = write_gguf(theirs, tmp_path / f"{kind}.gguf", extra=extra), words(theirs, 150)
        with torch.no_grad():
            torch.testing.assert_close(build(file)(ids), logits(theirs, ids), atol=1e-4, rtol=1e-4)


def test_a_window_makes_it_a_mistral(tmp_path):
    file = write_gguf(hf_model("llama"), tmp_path / "m.gguf", extra=lambda w: w.add_sliding_window(7))
    assert build(file).config.window == 6  # ours counts the tokens before


def test_the_vocabulary_is_unchanged(tmp_path):
    half = "t\udce4"  # a piece of bytes that is no character by itself stays what it is

    def extra(writer):
        writer.add_chat_template("{{ messages }}")
        writer.add_array("tokenizer.odd", [b"t\xe4"])

    vocabulary = gguf.read(write_gguf(hf_model("llama"), tmp_path / "m.gguf", extra=extra)).vocabulary
    assert vocabulary["ggml.tokens"][:4] == ["t", "1", "t1", "t2"] and vocabulary["ggml.merges"] == ["t 1"]
    assert vocabulary["ggml.eos_token_id"] == 2 and vocabulary["chat_template"] == "{{ messages }}"
    assert vocabulary["odd"] == [half]
    assert vocabulary["ggml.token_type"] == [1] * 67


@pytest.mark.parametrize("kind", gguf.FAST_UNPACK)
def test_fast_unpacking_equals_the_package_to_the_bit(kind):
    size, _ = gguf.FAST_UNPACK[kind]
    raw = np.random.default_rng(0).integers(0, 256, (200, size), dtype=np.uint8)
    with np.errstate(all="ignore"):
        expected = dequantize(raw.reshape(-1), package.GGMLQuantizationType(kind)).reshape(-1)
        assert np.array_equal(gguf.dequantise(raw, kind).numpy(), expected, equal_nan=True)


def test_unpermuting_undoes_the_permutation():
    from .files import permute

    rows = np.arange(24 * 3).reshape(24, 3)
    assert np.array_equal(gguf.unpermute(permute(rows, 3), 3), rows)
    assert not np.array_equal(permute(rows, 3), rows)


def head(version=3, tensors=0, settings=0, rest=b""):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, settings) + rest


def text(word):
    return struct.pack("<Q", len(word)) + word.encode()


LIES = {
    "empty": (b"", "empty"),
    "something else": (b"PK\3\4" + bytes(64), "does not begin with GGUF"),
    "two bytes": (b"GG", "does not begin with GGUF"),
    "only the name": (b"GGUF", "only 0 follow"),
    "version 1": (head(1), "version 1: qkv reads 2 and 3"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "little-endian"),
    "countless settings": (head(settings=1 << 62), "promises 4611686018427387904 × 13 bytes"),
    "countless tensors": (head(tensors=(1 << 64) - 1), "promises"),
    "an endless key": (head(settings=1, rest=struct.pack("<Q", 1 << 40) + bytes(30)), "promises"),
    "an array of 2^33 texts": (
        head(settings=1, rest=text("a") + struct.pack("<IIQ", 9, 8, 1 << 33) + bytes(90)),
        "8589934592 × 8 bytes",
    ),
    "an array of 2^33 numbers": (
        head(settings=1, rest=text("a") + struct.pack("<IIQ", 9, 5, 1 << 33) + bytes(90)),
        "8589934592 × 4 bytes",
    ),
    "arrays in arrays": (
        head(settings=1, rest=text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5000),
        "no setting has the type 9",
    ),
    "a type that isn't": (head(settings=1, rest=text("a") + struct.pack("<I", 77) + bytes(90)), "type 77"),
    "a key twice": (head(settings=2, rest=(text("a") + struct.pack("<IB", 0, 1)) * 2), "'a' appears twice"),
    "no settings": (head(), "None, which qkv does not know"),
    "five dimensions": (head(tensors=1, rest=text("t") + struct.pack("<I", 5) + bytes(90)), "5 dimensions"),
    "a strange alignment": (
        head(settings=1, rest=text("general.alignment") + struct.pack("<II", 4, 0)),
        "general.alignment is 0",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies(lie, tmp_path):
    file = tmp_path / "m.gguf"
    file.write_bytes(LIES[lie][0])
    with pytest.raises(Problem, match=r"m\.gguf") as refusal:
        gguf.read(file)
    assert LIES[lie][1] in str(refusal.value)
    assert "m.gguf" in refusal.value.say("zh")


def tensor_row(name, shape, kind, offset):
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", (8,), 0, 0), ("b", (8,), 0, 0)], "overlaps another"),
        ([("a", (8,), 0, 4096)], "ends at byte"),
        ([("a", (1 << 40, 1 << 40), 0, 0)], "ends at byte"),
        ([("a", (1 << 63, 2), 0, 0)], "ends at byte"),
        ([("a", (0,), 0, 0)], "can't be"),
        ([("a", (33,), 8, 0)], "can't be"),
        ([("a", (8,), 0, 5)], "can't be"),
        ([("a", (8,), 0, 0), ("a", (8,), 0, 32)], "appears twice"),
        ([("a", (8,), 999, 0)], "type 999"),
    ],
)
def test_tensors_that_cannot_be(rows, message, tmp_path):
    file = tmp_path / "m.gguf"
    file.write_bytes(head(tensors=len(rows), rest=b"".join(tensor_row(*row) for row in rows)) + bytes(256))
    with pytest.raises(Problem, match=message):
        gguf.read(file)


@pytest.mark.parametrize(
    ("extra", "arch", "message"),
    [
        (None, "lama", "is a lama, which qkv does not know in GGUF: it reads llama, qwen2, .* the nearest is llama"),
        (lambda w: w.add_expert_count(8), None, "expert_used_count = None"),
        (lambda w: w.add_rope_dimension_count(4), None, "rope.dimension_count = 4"),
        (lambda w: w.add_rope_scaling_type(package.RopeScalingType.LONGROPE), None, "scaling.type = longrope"),
        (lambda w: w.add_array("llama.attention.key_length", [4, 8]), None, "key_length"),
        (lambda w: w.add_tensor("blk.0.strange.weight", np.zeros(8, np.float32)), None, "strange"),
    ],
)
def test_models_that_qkv_has_no_layers_for(extra, arch, message, tmp_path):
    file = write_gguf(hf_model("llama"), tmp_path / "m.gguf", extra=extra, arch=arch)
    with pytest.raises(Problem, match=message):
        build(file)


@pytest.mark.parametrize(
    ("name", "extra", "message"),
    [
        ("gemma2", lambda w: w.add_sliding_window_pattern(0), "sliding_window_pattern = 0"),
        ("gemma3_text", lambda w: w.add_attn_logit_softcapping(3.0), "attn_logit_softcapping = 3.0, which qkv doesn't"),
        ("phi3", lambda w: _factors(w, "long", 16), "rope_freqs don't fit its heads"),
        ("phi3", lambda w: [_factors(w, length, 7) for length in ("long", "short")], "rope_freqs don't fit its heads"),
        ("gpt2", lambda w: _factors(w, "long", 16), "rope_factors_long"),
        ("gpt_neox", lambda w: w.add_head_count_kv(1), "head_count_kv = 1"),
        ("gpt_neox", lambda w: w.add_key_length(64), "key_length = 64"),
        ("deepseek_v2", lambda w: w.add_attn_temperature_scale(0.1), "temperature_scale = 0.1"),
        ("deepseek_v2", lambda w: w.add_nextn_predict_layers(1), "nextn_predict_layers = 1"),
    ],
)
def test_what_such_a_family_has_no_layers_for(name, extra, message, tmp_path):
    file = write_gguf(hf_model(name), tmp_path / "m.gguf", extra=extra)
    with pytest.raises(Problem, match=message):
        build(file)


def _factors(writer, length, count):
    writer.add_tensor(f"rope_factors_{length}.weight", np.ones(count, np.float32))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("expert_gating_func", 3, "expert_gating_func = 3"),
        ("attention.key_length", 47, "attention.key_length = 47"),
        ("attention.key_length_mla", 16, "attention.key_length = 16"),
        ("attention.head_count_kv", 2, "attention.head_count_kv = 2"),
    ],
)
def test_sizes_of_a_latent_that_can_not_be(key, value, message, tmp_path):
    file = write_gguf(hf_model("deepseek_v3"), tmp_path / "m.gguf")
    raw, key = bytearray(file.read_bytes()), f"deepseek2.{key}".encode()
    at = raw.index(struct.pack("<Q", len(key)) + key) + 8 + len(key) + 4
    raw[at : at + 4] = struct.pack("<I", value)
    file.write_bytes(raw)
    with pytest.raises(Problem, match=message):
        build(file)


def test_half_of_a_latent_is_missed(tmp_path):
    file = write_gguf(hf_model("deepseek_v2"), tmp_path / "m.gguf")
    file.write_bytes(file.read_bytes().replace(b"blk.1.attn_v_b.weight", b"blk.1.attn_v_c.weight"))
    with pytest.raises(Problem, match=r"missing model\.layers\.1\.self_attn\.kv_b_proj\.weight"):
        build(file)


def setting_names_of_the_package():
    """Every setting that the gguf package has a name for in an architecture's namespace, and one that nobody has."""
    sections = [
        package.Keys.LLM,
        *(vars(package.Keys)[name] for name in ("Attention", "Rope", "SSM", "WKV", "Classifier")),
    ]
    named = [value for section in sections for value in vars(section).values() if isinstance(value, str)]
    keys = [name.removeprefix("{arch}.") for name in named if name.startswith("{arch}.") and name.count("{") == 1]
    return [*keys, "invented", "attention.invented.deeper"]


def with_setting(theirs, file, key, value):
    add = {bool: "add_bool", int: "add_uint32", float: "add_float32", str: "add_string"}[type(value)]
    return write_gguf(theirs, file, extra=lambda writer: getattr(writer, add)(key, value))


# Three ways to read settings always; the others, and Qwen, whose are read by LLaMA's lines, take their time.
@pytest.mark.parametrize(
    "name",
    [
        *("llama", "gpt2", "bert"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("qwen2", "qwen3", "mixtral", "qwen3_moe", *SPECIAL_FAMILIES)
        ),
    ],
)
def test_a_setting_is_obeyed_or_refused(name, tmp_path):
    """Whatever llama.cpp may know and we don't: refused, or the model is another one, or it is known to say nothing."""
    theirs = hf_model(name)
    plain = build(write_gguf(theirs, tmp_path / "plain.gguf")).config
    there = gguf.header(tmp_path / "plain.gguf")[0]
    assert len(setting_names_of_the_package()) > 80
    arch = ARCHITECTURES.get(name, name)
    for word in setting_names_of_the_package():
        key = f"{arch}.{word}"
        for value in (True, 5, 0.37, "odd") if key not in there else ():
            try:
                config = build(with_setting(theirs, tmp_path / "m.gguf", key, value)).config
            except Problem as problem:
                assert "m.gguf" in str(problem)
            else:
                is_neutral = value is True and word in ("attention.causal", "rope.scaling.factor") and name != "bert"
                assert config != plain or word in HARMLESS or is_neutral, (key, value)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *(("attention.causal", True), ("attention.scale", 0.0), ("attention.scale", 8**-0.5), ("logit_scale", 1.0)),
        *(("residual_scale", 1.0), ("use_parallel_residual", False), ("final_logit_softcapping", 0.0)),
        *(("rope.scaling.factor", 0.0), ("rope.scaling.attn_factor", 1.0), ("expert_count", 0), ("invented", 0)),
        *(("vocab_size", 67), ("tensor_data_layout", "Meta AI original pth"), ("attention.sliding_window", 0)),
    ],
)
def test_neutral_settings_are_accepted(word, value, tmp_path):
    theirs = hf_model("llama", head_dim=8)
    plain = build(write_gguf(theirs, tmp_path / "plain.gguf")).config
    assert build(with_setting(theirs, tmp_path / "m.gguf", f"llama.{word}", value)).config == plain


def test_a_factor_without_a_type_is_linear(tmp_path):
    """As in llama.cpp."""
    file = with_setting(hf_model("llama"), tmp_path / "m.gguf", "llama.rope.scaling.factor", 3.0)
    assert build(file).config.rotary_scaling == {"kind": "linear", "factor": 3.0}


def test_more_layers_than_tensors_are_refused_at_once(tmp_path):
    file = write_gguf(hf_model("llama"), tmp_path / "m.gguf")
    raw = bytearray(file.read_bytes())
    at = raw.index(b"llama.block_count") + len(b"llama.block_count") + 4
    assert raw[at : at + 4] == struct.pack("<I", LLAMA["num_hidden_layers"])
    raw[at : at + 4] = struct.pack("<I", 4_000_000_000)
    file.write_bytes(raw)
    with pytest.raises(Problem, match=r"num_hidden_layers is 4000000000, but its weights allow \d+ at most"):
        build(file)


@pytest.mark.slow
def test_smollm2_is_what_transformers_makes_of_it():
    from transformers import AutoModelForCausalLM

    file = store.get("smollm2")
    theirs = AutoModelForCausalLM.from_pretrained(str(Path(file).parent), gguf_file=file.name, dtype=torch.float32)
    ids = words(theirs, 60)
    with torch.no_grad():
        torch.testing.assert_close(build(file)(ids), theirs.eval()(ids).logits, atol=2e-4, rtol=1e-4)
