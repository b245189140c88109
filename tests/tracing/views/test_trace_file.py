"""Files that claim to be traces: each is a trace or a Problem, told before its tensors are read."""

import json
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

from qkv import Config, Transformer
from qkv.i18n import Problem
from qkv.tracing.record.recorder import trace
from qkv.tracing.views.trace_file import read
from qkv.tracing.views.traces import Trace


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("trace") / "t.safetensors"
    model = Transformer(Config(vocab=11, width=16, n_layer=2, n_head=4, n_kv_head=2, position="alibi", window=3))
    trace(model, [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3], [2, 7, 1]]).save(file)
    return file


def changed(whole, tmp_path, header=None, **tensors):
    """The file with its header passed through a function and some tensors put in others' place."""
    content = read(whole)[0]
    content = content if header is None else header(content)
    stored = load_file(whole) | {name.replace("_", "."): tensor for name, tensor in tensors.items()}
    save_file(stored, tmp_path / "t.safetensors", metadata={"qkv": json.dumps(content)})
    return tmp_path / "t.safetensors"


def layers(n):
    return lambda h: h | {"calls": {"decoder": h["calls"]["decoder"] | {"layers": n}}}


def three(h):
    h["tokens"]["decoder"]["queries"][0]["pieces"] = ["a", "b", "c"]
    return h


def single_item(h):
    del h["tokens"]["decoder"]["queries"][1]
    return h


@pytest.mark.parametrize(
    ("header", "tensors", "message"),
    [
        (None, {"decoder_0_q": torch.zeros(2, 4, 10, 4, dtype=torch.bfloat16)}, "decoder.0.q holds BF16"),
        (lambda h: [], {}, "no trace"),
        (lambda h: h | {"calls": []}, {}, "calls"),
        (lambda h: h | {"calls": {"../x": {}}}, {}, "calls"),
        (None, {"decoder_0_k": torch.zeros(2, 0, 10, 4), "decoder_0_v": torch.zeros(2, 0, 10, 4)}, "decoder.0 has q"),
        (None, {"decoder_0_k": torch.zeros(2, 3, 10, 4), "decoder_0_v": torch.zeros(2, 3, 10, 4)}, "decoder.0 has q"),
        (None, {"decoder_1_v": torch.zeros(2, 2, 9, 4)}, "decoder.1 has q"),
        (None, {"decoder_1_q": torch.zeros(2, 4, 10)}, "decoder.1 has q"),
        (three, {}, "10 queries, 3 tokens"),
        (single_item, {}, "2 texts"),
        (layers(10**9), {}, "1000000000 layers"),
        (layers(0), {}, "0 layers"),
        (layers(3), {}, "its 3 layers"),
    ],
)
def test_what_is_no_trace_is_refused(whole, tmp_path, header, tensors, message):
    file = changed(whole, tmp_path, header, **tensors)
    with pytest.raises(Problem, match=message) as problem:
        Trace.load(file)
    assert str(file) in str(problem.value) and problem.value.say("zh") != str(problem.value)


def test_nesting_without_end_is_refused(tmp_path):
    save_file({"a": torch.zeros(1)}, tmp_path / "t.safetensors", metadata={"qkv": "[" * 100_000})
    with pytest.raises(Problem, match="not a readable trace"):
        Trace.load(tmp_path / "t.safetensors")


def test_a_large_file_that_is_no_trace_is_not_read(tmp_path):
    file = tmp_path / "t.safetensors"
    size = 10 * 2**30  # a hole, which takes no room on disk
    head = json.dumps({"a": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    with file.open("wb") as out:
        out.write(struct.pack("<Q", len(head)) + head)
        out.truncate(8 + len(head) + size)
    with pytest.raises(Problem, match="no trace"):
        Trace.load(file)
