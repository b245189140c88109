"""Loading by whatever names a model: the same weights, in memory about once, and a sentence where it can't be done."""

import hashlib
import json
import re
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from qkv import load
from qkv.cli import main
from qkv.disk import run_folder
from qkv.formats import model_files, tensor_files
from qkv.i18n import Problem
from qkv.library import store
from qkv.text import Bytes
from qkv.text.library_tokenizer import LETTERS

from .cases import SHAPES, make, words
from .files import hf_model, rounded, write_ctranslate2, write_gguf


def folder_of(name, folder):
    """A Hugging Face folder of a small model, with a tokenizer that fits."""
    model = hf_model(name, vocab_size=300)
    model.save_pretrained(folder)
    Bytes.make().save(folder)
    return model


def logits(model, ids):
    with torch.no_grad():
        return model(input_ids=ids).logits


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", ("decoder", "encoder-decoder"))
def test_every_weight_is_initialised(name, kind):
    """Built on nothing and given its weights, a model says what it says when built as usual."""
    model = make(name, kind)
    again = model_files.empty_model(model.config)
    model_files.assign("here", again, {n: t.clone() for n, t in tensor_files.weights_of(model).items()}, torch.float64)
    assert not [n for n, t in (*again.named_parameters(), *again.named_buffers()) if t.is_meta]
    assert all(p.requires_grad for p in again.parameters())
    inputs = (words(2, 9),) if kind == "decoder" else (words(2, 9), words(2, 7))
    with torch.no_grad():
        assert torch.equal(again.eval()(*inputs), model(*inputs))
    assert (again.head.weight is again.embedding.weight) == model.config.tied


def test_weights_that_nothing_reads_are_refused():
    model = make(next(iter(SHAPES)))
    state = {name: tensor.clone() for name, tensor in tensor_files.weights_of(model).items()} | {
        "more.weight": torch.ones(2)
    }
    with pytest.raises(Problem, match=r"does not have \(more\.weight\)") as refusal:
        model_files.assign("here", model_files.empty_model(model.config), state, torch.float64)
    assert "配置里没有的权重" in refusal.value.say("zh")


@pytest.mark.parametrize("name", ["x" * 1_000_000, "x/" * 5_000 + "x", "hf:" + "x" * 1000 + "/y", "x\0y"], ids=len)
def test_a_name_that_no_file_can_have_is_refused(name):
    with pytest.raises(Problem, match=r"there is no model|is not the name of a hub repository") as refusal:
        load(name)
    assert len(str(refusal.value)) < 5000


def test_no_random_numbers_are_drawn_for_weights_that_come_from_a_file():
    config = make().config
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    model_files.empty_model(config)
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("shard", (None, "60KB"), ids=("one file", "shards"))
@pytest.mark.parametrize("name", ("llama", "gpt2"))
def test_a_hugging_face_folder(name, shard, tmp_path):
    theirs = hf_model(name, vocab_size=300)
    theirs.save_pretrained(tmp_path, **({"max_shard_size": shard} if shard else {}))
    Bytes.make().save(tmp_path)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 2) == (shard is not None)
    ours, tokenizer = load(tmp_path)
    ids = torch.tensor([tokenizer.encode("The cat sat on the mat, 我爱北京")])
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), logits(theirs, ids), atol=2e-5, rtol=1e-4)
    assert not ours.training and all(p.requires_grad and p.is_contiguous() for p in ours.parameters())


@pytest.mark.parametrize("stored", (torch.float16, torch.bfloat16, torch.float64))
@pytest.mark.parametrize("requested", (torch.float32, torch.float64, torch.bfloat16))
def test_weights_have_the_requested_dtype(stored, requested, tmp_path):
    theirs = folder_of("llama", tmp_path)
    theirs.to(stored).save_pretrained(tmp_path)
    ours, _ = load(tmp_path, dtype=requested)
    assert {p.dtype for p in ours.parameters()} == {requested}
    want = theirs.model.layers[1].mlp.up_proj.weight.to(requested)
    assert torch.equal(ours.decoder[1].feed_forward.up.weight, want)


def test_a_model_can_be_trained_on_and_its_file_stays_as_it_was(tmp_path):
    folder_of("llama", tmp_path)
    file = tmp_path / "model.safetensors"
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    model, _ = load(tmp_path)
    ids = torch.randint(256, (2, 12))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    old = model.decoder[0].attention.q.weight.detach().clone()
    model(ids).logsumexp(-1).sum().backward()
    optimizer.step()
    assert not torch.equal(model.decoder[0].attention.q.weight, old)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before
    again, _ = load(tmp_path)
    assert torch.equal(again.decoder[0].attention.q.weight, old)


def test_a_gguf_file_and_its_folder(tmp_path):
    theirs = hf_model("llama", vocab_size=256)
    file = tmp_path / "here" / "m.gguf"
    file.parent.mkdir()
    write_gguf(theirs, file, "q8_0", tokens=LETTERS)
    for name in (file, str(file), file.parent):
        model, tokenizer = load(name)
        ids = torch.tensor([tokenizer.encode("the 猫")])
        assert ids.tolist() == [list("the 猫".encode())]
        with torch.no_grad():
            torch.testing.assert_close(model(ids), logits(rounded(theirs, "q8_0"), ids), atol=2e-5, rtol=1e-4)
    shutil.copy(file, file.with_name("n.gguf"))
    with pytest.raises(Problem, match=r"several models: name one of m\.gguf, n\.gguf"):
        load(file.parent)


def test_a_tokenizer_of_another_model_is_refused_with_both_numbers(tmp_path):
    hf_model("llama", vocab_size=100).save_pretrained(tmp_path)
    Bytes.make().save(tmp_path)
    with pytest.raises(Problem, match="tokenizer has 256 tokens and the model 100"):
        load(tmp_path)


def test_a_folder_without_a_tokenizer_gives_the_model_and_none(tmp_path, capsys, monkeypatch):
    """Ids are enough to run it; a command, which reads text, says what is missing, and so does a damaged tokenizer."""
    theirs, ids = folder_of("llama", tmp_path), torch.randint(300, (2, 7))
    there = [file for file in tmp_path.iterdir() if file.suffix == ".json" and file.name != "config.json"]
    for file in there:
        file.unlink()
    model, tokenizer = load(tmp_path)
    assert tokenizer is None
    with torch.no_grad():
        torch.testing.assert_close(model(ids), logits(theirs, ids), atol=1e-4, rtol=1e-4)
    monkeypatch.setenv("QKV_LANG", "en")
    for command in (["generate", "a cat"], ["see", "a cat"]):
        assert main([*command, "--model", str(tmp_path)]) == 2
        assert f"no tokenizer at {tmp_path / 'tokenizer.json'}" in capsys.readouterr().err
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(Problem, match="is not a tokenizer"):
        load(tmp_path)


MEASURE = """
import os, re, sys, torch, gguf.quants
from pathlib import Path
from qkv.formats import gguf as gguf_files
from qkv.model import weights

def peak():  # ru_maxrss would begin with what the parent process had
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

def measure(path):
    before = peak()
    if path.suffix == ".gguf":
        contents = gguf_files.read(path)
        model = weights.build(path, contents.config, contents.tensors)
    else:
        model, _ = weights.load(path)
    sum(p.sum().item() for p in model.parameters())  # what is mapped must be read to count
    print((peak() - before) / sum(p.numel() * 4 for p in model.parameters()), flush=True)

for path in map(Path, sys.argv[1:]):
    if (child := os.fork()) == 0:  # memory that was given back would hide what the next one takes
        measure(path)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, path
"""


def heavy(kind, path):
    """A model of more than 100 MB, written in one of the ways there are."""
    path.mkdir()
    llama = dict(hidden_size=1024, intermediate_size=2048, num_hidden_layers=2, num_attention_heads=8, head_dim=128)
    gpt2 = dict(n_embd=1024, n_inner=4096, n_layer=2, n_head=8)
    theirs = (
        hf_model("gpt2", vocab_size=2000, **gpt2) if kind == "GPT-2" else hf_model("llama", vocab_size=8000, **llama)
    )
    assert sum(p.numel() for p in theirs.parameters()) * 4 > 100e6
    if kind == "q8_0":
        return write_gguf(theirs, path / "m.gguf", kind)
    Bytes.make().save(path)
    many = {"max_shard_size": "40MB"} if kind == "shards" else {}
    theirs.to(torch.float16 if kind == "float16" else torch.float32).save_pretrained(path, **many)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "kinds",
    [("shards", "q8_0"), pytest.param(("float32", "float16", "GPT-2"), marks=pytest.mark.slow)],
    ids=" ".join,
)
def test_the_weights_are_in_memory_about_once(tmp_path, kinds):
    paths = [heavy(kind, tmp_path / kind) for kind in kinds]
    result = subprocess.run([sys.executable, "-c", MEASURE, *paths], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    times = dict(zip(kinds, map(float, result.stdout.split()), strict=True))
    assert all(0.9 < times[kind] < 1.5 for kind in kinds), times


def test_names(tmp_path, monkeypatch):
    monkeypatch.setenv("QKV_HOME", str(tmp_path / "home"))
    for name, message in (
        ("smollm2", "not here yet: get it with `qkv models get smollm2`"),
        ("hf:owner/tiny", "get it with `qkv models get hf:owner/tiny`"),
        ("smolm2", "did you mean smollm2?"),
        ("shakespeare", "there is no model shakespeare"),
        (tmp_path / "none.gguf", r"there is no model .*none\.gguf"),
    ):
        with pytest.raises(Problem, match=message):
            load(name)
    path = tmp_path / "home" / "model" / "smollm2"
    path.mkdir(parents=True)
    monkeypatch.setattr(store, "path", lambda name: folder if name == "smollm2" else None)
    folder = tmp_path / "hf"
    folder_of("llama", folder)
    assert load("smollm2")[0].config.vocab == 300


def broken_folder(tmp_path, change):
    folder_of("llama", tmp_path)
    change(tmp_path)
    return tmp_path


def config(**changes):
    def change(folder):
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


def index(where):
    def change(folder):
        (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
        names = load_file(folder / "model-00001-of-00001.safetensors")
        weight_map = {name: "model-00001-of-00001.safetensors" for name in names} | where
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    return change


def without(name):
    def change(folder):
        tensors = load_file(folder / "model.safetensors")
        tensors.pop(name)
        save_file(tensors, folder / "model.safetensors")

    return change


def cut(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def pickled(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04would run a program if opened")


BROKEN = {
    "cut": (cut, "not a readable safetensors file"),
    "no safetensors at all": (lambda f: (f / "model.safetensors").write_bytes(b"hello"), "not a readable safetensors"),
    "a header of 2^60 bytes": (
        lambda f: (f / "model.safetensors").write_bytes((1 << 60).to_bytes(8, "little") + bytes(99)),
        "not a readable safetensors",
    ),
    "config is cut": (lambda f: (f / "config.json").write_text('{"model_type": '), "config.json can't be read"),
    "config is a list": (lambda f: (f / "config.json").write_text("[]"), "config.json can't be read"),
    "config is deep": (lambda f: (f / "config.json").write_text("[" * 100_000), "config.json can't be read"),
    "config is no text": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe\x00"), "config.json can't be read"),
    "config of something else": (lambda f: (f / "config.json").write_text('{"a": 1}'), "neither 'format'"),
    "unknown type": (config(model_type="lama"), "'lama' is not one of .*did you mean 'llama'"),
    "a type that is no word": (config(model_type=[1]), "model_type"),
    "absurd layers": (config(num_hidden_layers=10**9), "num_hidden_layers is 1000000000, but its weights allow"),
    "absurd heads": (config(num_attention_heads=10**12), "num_attention_heads is 1000000000000"),
    "absurd head width": (config(head_dim=10**10), "head_dim is 10000000000"),
    "heads of another number": (config(num_attention_heads=5), "5 heads don't divide"),
    "no heads": (config(num_attention_heads=0), "num_attention_heads is 0"),
    "width in words": (config(hidden_size="many"), "describes no model|width|hidden_size"),
    "another width": (config(hidden_size=48), "(?s)48"),
    "one layer fewer": (config(num_hidden_layers=2), "there is also"),
    "one layer more": (config(num_hidden_layers=4), "missing"),
    "quantised": (config(quantization_config={"quant_method": "gptq"}), r"quantised \(gptq\)"),
    "a tensor missing": (without("model.layers.1.mlp.up_proj.weight"), "missing model.layers.1.mlp.up_proj.weight"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "has no weights"),
    "pickled only": (pickled, r"pytorch_model\.bin only, a pickled file.*save_pretrained\('converted'\)"),
    "a shard missing": (
        index({"lm_head.weight": "model-00002-of-00002.safetensors"}),
        "1 of .* missing.*00002-of-00002",
    ),
    "a shard elsewhere": (index({"lm_head.weight": "../model.safetensors"}), "only .safetensors files beside it"),
    "a shard from the root": (index({"lm_head.weight": "/etc/passwd"}), "only .safetensors files beside it"),
    "a shard on another drive": (index({"lm_head.weight": "C:\\a.safetensors"}), "only .safetensors files beside it"),
    "a pickled shard": (index({"lm_head.weight": "a.bin"}), "only .safetensors files beside it"),
    "an index that promises more": (
        index({"model.more": "model-00001-of-00001.safetensors"}),
        r"lacks model\.more, which the index says",
    ),
    "an index of nothing": (index({"lm_head.weight": 3}), "weight_map"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_gets_a_sentence_in_both_languages(name, tmp_path):
    change, message = BROKEN[name]
    with pytest.raises(Problem, match=message) as refusal:
        load(broken_folder(tmp_path, change))
    assert str(tmp_path) in str(refusal.value)
    assert re.search("[\u4e00-\u9fff]", refusal.value.say("zh"))


def test_folders_with_nothing_in_them(tmp_path):
    with pytest.raises(Problem, match="is neither a run of qkv nor a published model"):
        load(tmp_path)
    (tmp_path / "model.pt").write_bytes(b"\x80")
    with pytest.raises(Problem, match=r"model\.pt only, a pickled file"):
        load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(Problem, match="give the folder that it lies in"):
        load(tmp_path / "model.safetensors")
    write_ctranslate2(hf_model("marian"), tmp_path / "ct")
    with pytest.raises(Problem, match=r"no sentencepiece\.model"):
        load(tmp_path / "ct")


@pytest.mark.parametrize("strange", (float("nan"), float("inf"), -float("inf")))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16))
def test_weights_that_are_no_numbers_are_refused_by_name(strange, dtype, tmp_path):
    """In a Hugging Face folder, whichever tensor it is; large weights are numbers."""
    folder_of("llama", tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(file).items()}
    tensors["lm_head.weight"][1, 2] = torch.finfo(dtype).max
    for name in ("lm_head.weight", "model.layers.1.self_attn.q_proj.weight", "model.norm.weight"):
        changed = tensors[name].clone()
        changed.view(-1)[7] = strange
        save_file(tensors | {name: changed}, file)
        with pytest.raises(Problem, match=rf"{name} has 1 of its {changed.numel()} weights.*first is {strange}, at"):
            load(tmp_path)
    save_file(tensors, file)
    load(tmp_path)


def test_every_format_refuses_infinite_weights(tmp_path):
    model = hf_model("llama", vocab_size=256)
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight[3, 1] = float("inf")
    write_gguf(model, tmp_path / "m.gguf", "f32", tokens=LETTERS)
    translator = hf_model("marian")
    with torch.no_grad():
        translator.model.decoder.layers[0].fc1.bias[2] = float("nan")
    write_ctranslate2(translator, tmp_path / "ct")
    for path, name in (("m.gguf", "mlp.up_proj.weight"), ("ct", "fc1.bias")):
        with pytest.raises(Problem, match=f"{name} has 1 of its"):
            load(tmp_path / path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run of qkv with two checkpoints, the second the best."""
    from qkv.train.run import start

    folder = tmp_path_factory.mktemp("trained")
    (folder / "book.txt").write_text("the cat sat on the mat. " * 60, encoding="utf-8")
    small = dict(width=16, n_head=2, n_layer=1, context=16, batch=4, steps=4, checkpoint_every=2, eval_every=2)
    start("lm", out=folder / "run", source=str(folder / "book.txt"), changes=small).train()
    return folder / "run"


def test_a_changed_checkpoint_is_refused_by_every_command(run, tmp_path, capsys):
    """Any byte of it, at the beginning, in the middle, at the end; and what to do is said."""
    from qkv.cli import main

    shutil.copytree(run, tmp_path / "run")
    load(tmp_path / "run")
    checkpoint = run_folder.best(tmp_path / "run")
    file = checkpoint / "model.safetensors"
    whole = file.read_bytes()
    for at in (len(whole) - 3, len(whole) // 2, 9, 0):
        raw = bytearray(whole)
        raw[at] ^= 1
        file.write_bytes(raw)
        with pytest.raises(Problem, match=r"is not what was written: its content changed.*--resume") as refusal:
            load(tmp_path / "run")
        assert str(checkpoint) in refusal.value.say("zh")
    file.write_bytes(whole[:-4])
    with pytest.raises(Problem, match="it was cut short"):
        load(tmp_path / "run")
    for command in (["generate", "the", "--model"], ["see", "the cat", "--model"], ["export"], ["models", "show"]):
        assert main([*command, str(tmp_path / "run")]) == 2
        assert "it was cut short" in capsys.readouterr().err
    assert not (tmp_path / "run-hf").exists()
    shutil.rmtree(checkpoint)
    load(tmp_path / "run")


def test_a_checkpoint_of_another_config_is_refused_by_name_and_shape(tmp_path):
    file, model = tmp_path / "model.safetensors", make()
    save_file(tensor_files.weights_of(make(width=24)), file)
    with pytest.raises(
        Problem, match=r"of another config: decoder.0.attention.k.weight is \(24, 24\) there and \(18, 18\)"
    ):
        tensor_files.load_weights(file, model)
    save_file({"a": torch.zeros(2)}, file)
    with pytest.raises(Problem, match=r"a is \(2,\) there and missing here"):
        tensor_files.load_weights(file, model)
    file.write_bytes(b"hello")
    with pytest.raises(Problem, match="not a readable safetensors"):
        tensor_files.load_weights(file, model)
