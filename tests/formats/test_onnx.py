"""A LLaMA in an ONNX file is the same model, whatever bits it is kept in, and a damaged file is refused."""

import numpy as np
import pytest
import torch

from qkv.formats import model_files, onnx
from qkv.formats.load_report import inspect_model
from qkv.i18n import Problem
from qkv.library import store

from .files import _field, hf_model, onnx_tensor, write_onnx

# How far each kind is from the weights it keeps: half a step of 255 between least and largest, or 11 bits of each.
KINDS = {"f32": 0.0, "f16": 2.0**-11, "int8": 0.51 / 255, "uint8": 0.51 / 255, "channels": 0.51 / 255}


@pytest.mark.parametrize("tied", (True, False), ids=("tied", "untied"))
@pytest.mark.parametrize("kind", KINDS)
def test_our_model_of_it_is_transformers_model_of_it(kind, tied, tmp_path):
    model = hf_model("llama", tie_word_embeddings=tied)
    folder = write_onnx(model, tmp_path, kind)
    _, tensors = onnx.read(onnx.find(folder), model.config.to_dict())
    for name, tensor in tensors.items():
        weight = model.state_dict()[name]
        assert tensor.dtype == torch.float32 and tuple(tensor.shape) == tensors.shapes[name] == weight.shape
        widths = weight.max() - weight.min()
        if kind == "channels":  # columns of the file's matrices are rows of ours
            axis = 0 if "embed" in name else -1
            widths = weight.amax(axis, True) - weight.amin(axis, True)
        off = KINDS[kind] * (weight.abs() if kind == "f16" else widths) * (weight.ndim == 2)
        assert ((tensor - weight).abs() <= off + 1e-6).all(), name
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[name])
        model.lm_head.weight = torch.nn.Parameter(tensors["lm_head.weight"])  # one table, rounded twice
        ours, tokenizer = model_files.load(folder)
        ids = torch.randint(0, 67, (2, 9), generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(ours(ids), model(ids).logits, atol=2e-5, rtol=1e-4)
    assert tokenizer is None and ours.config.tied == (tied and kind in ("f32", "f16"))
    assert inspect_model(folder).loads and inspect_model(folder).config == ours.config


def test_safetensors_go_before_onnx(tmp_path):
    model = hf_model("llama")
    write_onnx(hf_model("llama", seed=1), tmp_path)
    model.save_pretrained(tmp_path)
    ours, _ = model_files.load(tmp_path)
    assert torch.equal(ours.embedding.weight, model.model.embed_tokens.weight)


def initializer(name, array, **more):
    return _field(5, onnx_tensor(name, array, **more))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (initializer("x", np.zeros(3, np.float32)) + initializer("x", np.zeros(3, np.float32)), "x is"),
        (_field(5, _field(1, 7) + _field(2, 1) + _field(8, "x.weight") + _field(9, b"1234")), "x.weight is .* 4 bytes"),
        (_field(5, _field(1, 0) + _field(2, 1) + _field(8, "x.weight")), r"x.weight is \(0,\)"),
        (_field(5, _field(1, 2**40) + _field(2, 1) + _field(8, "x.weight")), "x.weight is"),
        (_field(5, _field(2, 1) + _field(8, "x.weight") + _field(14, 1)), "lie in another file"),
        (_field(5, 3), "a number stands where"),
        (_field(1, 3), "a number stands where"),
        (b"\x0b", "not a protobuf number"),
        (b"\x80" * 11, "not a protobuf number"),
        (_field(5, b"\x4a\xff\x01"), "not a protobuf number"),
    ],
)
def test_a_damaged_file_is_refused(more, message, tmp_path):
    folder = write_onnx(hf_model("llama"), tmp_path, "f32", more=more)
    with pytest.raises(Problem, match=rf"(?s)model\.onnx.*{message}"):
        model_files.load(folder)


BITS, ZERO = np.zeros((2, 3), np.int8), initializer("x.weight_zero_point", np.zeros(3, np.int8))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (initializer("x.weight", BITS), "x.weight is torch.int8"),
        (initializer("x.weight_quantized", BITS), "it has no x.weight_scale"),
        (
            initializer("x.weight_quantized", BITS) + ZERO + initializer("x.weight_scale", np.ones(2, np.float32)),
            "doesn't fit",
        ),
        (initializer("x.weight_quantized", BITS) + ZERO + initializer("x.weight_scale", np.ones(3, np.int8)), "int8"),
        (
            initializer("x.weight_quantized", np.ones((2, 3), np.float32))
            + ZERO
            + initializer("x.weight_scale", np.ones(3, np.int8)),
            "32",
        ),
        (_field(5, _field(1, 1) + _field(2, 1) + _field(5, 7) + _field(8, "x.weight")), "float32"),
    ],
)
def test_bits_that_cannot_be_weights(more, message, tmp_path):
    graph = onnx.OnnxGraph(onnx.find(write_onnx(hf_model("llama"), tmp_path, more=more)))
    with pytest.raises(Problem, match=message):
        graph.floats("x.weight")


def test_four_bits_are_refused_with_what_to_take(tmp_path):
    folder = write_onnx(hf_model("llama"), tmp_path, node=_field(4, "MatMulNBits"))
    with pytest.raises(Problem, match=r"less than 8 bits \(MatMulNBits\).*model_quantized\.onnx"):
        model_files.load(folder)


@pytest.mark.parametrize(
    "raw", [b"", b"not a model", _field(1, 8), _field(7, b"")], ids=["empty", "text", "none", "bare"]
)
def test_what_is_no_model(raw, tmp_path):
    folder = write_onnx(hf_model("llama"), tmp_path)
    onnx.find(folder).write_bytes(raw)
    with pytest.raises(Problem, match=r"model_quantized\.onnx can't be used"):
        model_files.load(folder)


def test_fields_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx, "MAX_FIELDS", 100)
    with pytest.raises(Problem, match="more than 100 fields"):
        model_files.load(write_onnx(hf_model("llama"), tmp_path))


def unrounded(file):
    """The same graph with each product in float32: onnx's own reader, the weights as they are kept, inputs not rounded."""
    import onnx as library

    whole = library.load(file)
    graph = whole.graph
    arrays = {tensor.name: library.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    readers = {name: node for node in graph.node for name in node.input}
    rounds = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "DynamicQuantizeLinear"}
    for node in [node for node in graph.node if node.op_type == "MatMulInteger"]:
        input_name, name, _, zero = node.input
        scale = arrays[name.replace("_quantized", "_scale")]
        matrix = (arrays[name].astype(np.float32) - arrays[zero].astype(np.float32)) * scale
        graph.initializer.append(library.numpy_helper.from_array(matrix, f"{name}_float"))
        cast = readers[node.output[0]]
        last = readers[cast.output[0]]  # multiplies by both scales
        node.op_type, node.input[:], node.output[:] = "MatMul", [rounds[input_name], f"{name}_float"], last.output
        graph.node.remove(cast)
        graph.node.remove(last)
    return whole.SerializeToString()


@pytest.mark.slow
def test_minimind_has_onnxruntimes_logits():
    """As published, onnxruntime also rounds what goes into each product: then the likeliest token is the same."""
    import onnxruntime

    folder = store.path("minimind") or store.get("minimind")
    model, tokenizer = model_files.load(folder)
    file = onnx.find(folder)
    names = [f"past_key_values.{i}.{part}" for i in range(8) for part in ("key", "value")]
    past = dict.fromkeys(names, np.zeros((1, 2, 0, 64), np.float32))
    sessions = [onnxruntime.InferenceSession(graph) for graph in (unrounded(file), file.read_bytes())]
    for text in ("我喜欢玩人工智能，因为它很有趣", "中国的首都是哪里？", "The capital of France is"):
        ids = torch.tensor([tokenizer.encode(text)])
        fed = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "position_ids": torch.arange(ids.shape[1])[None],
        }
        fed = {name: value.numpy() for name, value in fed.items()}
        exact, published = (torch.from_numpy(session.run(["logits"], fed | past)[0]) for session in sessions)
        with torch.no_grad():
            ours = model(ids)
        torch.testing.assert_close(ours, exact, atol=1e-3, rtol=1e-4)
        assert torch.equal(ours.argmax(-1), published.argmax(-1)) and (ours - published).abs().mean() < 0.3
