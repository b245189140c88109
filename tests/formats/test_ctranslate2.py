"""A Marian in CTranslate2's file is the same model, and a damaged file is refused."""

import json
import struct

import numpy as np
import pytest
import torch

from qkv.formats import ctranslate2, model_files
from qkv.i18n import Problem
from qkv.library import store

from .files import hf_model, write_ctranslate2

# How far each kind is from the weights it keeps: half a step, the largest weight being 127, 1000 or 2^11 steps.
KINDS = {"f32": 0.0, "f16": 2.0**-11, "int8": 0.5 / 127, "int16": 0.5 / 1000}


def in_transformers(theirs, tensors):
    """transformers' own MarianMTModel of a file; it lacks nothing but what is computed or tied."""
    from transformers import MarianConfig, MarianMTModel

    model = MarianMTModel(MarianConfig(**theirs)).eval()
    info = model.load_state_dict(dict(tensors), strict=False)
    assert not info.unexpected_keys
    assert all("embed_" in name or name == "lm_head.weight" for name in info.missing_keys)
    model.tie_weights()
    return model


def texts():
    generator = torch.Generator().manual_seed(0)
    return (torch.randint(1, 59, (2, n), generator=generator) for n in (9, 7))


def stack(name, state):
    """The matrix of the file that a tensor is part of: 16 bits share one scale over all of it."""
    parts = {"self_attn": ("q_proj", "k_proj", "v_proj"), "encoder_attn": ("k_proj", "v_proj")}
    for attention, stacked in parts.items():
        if attention in name and any(part in name for part in stacked):
            begin = name.rpartition(".")[0].rpartition(".")[0]
            return torch.cat([state[f"{begin}.{part}.weight"] for part in stacked])
    return state[name]


@pytest.mark.parametrize("kind", KINDS)
def test_the_tensors_equal_their_source(kind, tmp_path):
    model = hf_model("marian")
    theirs, tensors = ctranslate2.read(write_ctranslate2(model, tmp_path, kind))
    state = model.state_dict()
    for name, tensor in tensors.items():
        assert tensor.dtype == torch.float32 and tuple(tensor.shape) == tensors.shapes[name] == state[name].shape
        off = torch.zeros(())
        if state[name].ndim == 2 and name != "final_logits_bias":
            whole = stack(name, state).abs()
            largest = {"f16": state[name].abs() + 1e-4, "int16": whole.max()}.get(kind, state[name].abs().amax(1, True))
            off = KINDS[kind] * 1.001 * largest
        assert ((tensor - state[name]).abs() <= off).all(), name
    for word in (
        "d_model",
        "encoder_layers",
        "decoder_attention_heads",
        "encoder_ffn_dim",
        "vocab_size",
        "pad_token_id",
    ):
        assert theirs[word] == getattr(model.config, word), word
    assert theirs["max_position_embeddings"] == 64 and theirs["activation_function"] == "swish"


def test_a_row_is_divided_by_its_own_scale(tmp_path):
    model = hf_model("marian")
    with torch.no_grad():  # rows of very different sizes
        model.model.encoder.layers[0].fc1.weight.mul_(torch.logspace(-3, 3, 40)[:, None])
    _, tensors = ctranslate2.read(write_ctranslate2(model, tmp_path, "int8"))
    weight = model.model.encoder.layers[0].fc1.weight
    off = (tensors["model.encoder.layers.0.fc1.weight"] - weight).abs().amax(1) / weight.abs().amax(1)
    assert off.max() < 0.51 / 127


@pytest.mark.parametrize("kind", ("f32", "int8"))
def test_our_model_of_it_is_transformers_model_of_it(kind, tmp_path):
    folder = write_ctranslate2(hf_model("marian"), tmp_path, kind)
    theirs, tensors = ctranslate2.read(folder)
    reference = in_transformers(theirs, tensors)
    ours, (source, target) = model_files.build(folder, theirs, tensors), texts()
    with torch.no_grad():
        expected = reference(input_ids=source, decoder_input_ids=target).logits
        torch.testing.assert_close(ours(target, source), expected, atol=2e-5, rtol=1e-4)
        original = hf_model("marian")(input_ids=source, decoder_input_ids=target).logits
    assert (expected - original).abs().max() < (1e-5 if kind == "f32" else 0.5)


@pytest.mark.parametrize("version", (3, 4, 5, 6))
def test_older_versions(version, tmp_path):
    model = hf_model("marian")
    _, tensors = ctranslate2.read(write_ctranslate2(model, tmp_path, "int8", version))
    assert (tensors["model.shared.weight"] - model.model.shared.weight).abs().max() < 0.01


def test_argos_packages_have_the_files_in_a_subfolder(tmp_path):
    write_ctranslate2(hf_model("marian"), tmp_path / "model")
    assert ctranslate2.find(tmp_path) == tmp_path / "model"
    assert ctranslate2.read(tmp_path)[0]["vocab_size"] == 60
    assert ctranslate2.find(tmp_path / "model") == tmp_path / "model" and ctranslate2.find(tmp_path.parent) is None


def test_the_vocabulary_ends_in_the_padding_that_the_file_leaves_out(tmp_path):
    folder = write_ctranslate2(hf_model("marian"), tmp_path)
    pieces = ctranslate2.vocabulary(folder)
    assert pieces[:2] == ["</s>", "<unk>"] and pieces[-1] == "<pad>" and len(pieces) == 60
    for wrong in ("{", '{"a": 1}', "[1, 2]"):
        (folder / "shared_vocabulary.json").write_text(wrong)
        with pytest.raises(Problem, match=r"shared_vocabulary\.json can't be read"):
            ctranslate2.vocabulary(folder)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"decoder/pre_norm": np.int8(1)}, "not a Marian translator.* decoder/pre_norm is 1, not 0"),
        ({"decoder/alibi": np.int8(1)}, "decoder/alibi is 1"),
        ({"encoder/num_heads": np.float32(3)}, "not a single integer"),
        ({"encoder/num_heads": np.int16(7)}, "heads"),
        ({"encoder/num_heads": np.int16(0)}, "model.bin"),
        ({"decoder/position_encodings/encodings": np.zeros((64, 24), np.float32)}, "position_encodings"),
        ({"encoder/layer_7/ffn/linear_0/bias": np.zeros(40, np.float32)}, "layers of its encoder are not whole"),
        ({"decoder/projection/bias": np.zeros(7, np.float32)}, "output bias doesn't fit"),
        ({"encoder/layer_1/self_attention/linear_0/bias": np.zeros(5, np.float32)}, "doesn't divide"),
        ({"encoder/layer_1/ffn/linear_0/weight": np.zeros((40, 24), np.int8)}, "weight_scale"),
        ({"encoder/activation": np.int8(77)}, "activation"),
    ],
)
def test_files_of_another_model(more, message, tmp_path):
    folder = write_ctranslate2(hf_model("marian"), tmp_path, **more)
    with pytest.raises(Problem, match=message):
        theirs, tensors = ctranslate2.read(folder)
        model_files.build(folder / "model.bin", theirs, tensors)


def test_headers_that_lie(tmp_path):
    file = write_ctranslate2(hf_model("marian"), tmp_path) / "model.bin"
    good = file.read_bytes()
    name = b"decoder/projection/bias\0"
    at = good.index(name) + len(name)
    for raw, message in (
        (b"", "empty"),
        (good[:3], "promises"),
        (struct.pack("<I", 77) + good[4:], "version is 77, not 2 to 6"),
        (good[:4] + struct.pack("<H", 60000) + good[6:300], "promises 60000"),
        (good.replace(b"TransformerSpec", b"WhisperSpecXXXX"), "WhisperSpec"),
        (good[:26] + b"\xff\xff\xff\xff" + good[30:], "promises 4294967295 × 8 bytes"),
        (good[: at + 1] + b"\xff\xff\xff\xff" + good[at + 5 :], r"is \(4294967295,\) and has"),
        (good[:at] + b"\xff" + good[at + 1 :], "promises|unknown type"),
        (good[:-10], "promises"),
        (
            good.replace(b"encoder/embeddings_0/weight", b"encoder/embeddings_9/weight"),
            "it has no encoder/embeddings_0",
        ),
    ):
        file.write_bytes(raw)
        with pytest.raises(Problem, match=message) as refusal:
            ctranslate2.read(tmp_path)
        assert "model.bin" in refusal.value.say("zh")
    with pytest.raises(Problem, match=r"no model\.bin"):
        ctranslate2.read(tmp_path / "nothing")


@pytest.mark.slow
def test_opus_translates_in_transformers_class():
    from sentencepiece import SentencePieceProcessor

    folder = store.get("opus-zh-en")
    theirs, tensors = ctranslate2.read(folder)
    model, cutter = in_transformers(theirs, tensors), SentencePieceProcessor(str(folder / "sentencepiece.model"))
    pieces = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
    ids = [pieces.index(piece) for piece in cutter.encode("我喜欢玩人工智能。", out_type=str)] + [0]
    out = model.generate(torch.tensor([ids]), num_beams=4, max_new_tokens=40)[0].tolist()
    translation = "".join(pieces[i] for i in out if 0 < i < len(pieces)).replace("▁", " ").strip()
    assert translation == "I like to play artificial intelligence."
    ours, target = model_files.build(folder, theirs, tensors), torch.tensor([out])
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([ids]), decoder_input_ids=target).logits
        torch.testing.assert_close(ours(target, torch.tensor([ids])), expected, atol=2e-4, rtol=1e-4)
