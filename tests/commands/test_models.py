"""train, generate, fill, translate, export and data on the command line, as a person meets them."""

import json
import shlex
import subprocess
import sys

import pytest

import qkv
from qkv.cli import main
from qkv.train.run import StartOptions
from qkv.train.training_data import Sources
from tests.conftest import SMALL, TEXT


@pytest.fixture
def call(capfd, monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")

    def run_command(*arguments):
        capfd.readouterr()
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as stop:
            code = stop.code
        out, err = capfd.readouterr()
        return code, out, err

    return run_command


def test_training_prints_its_progress_in_both_languages(call, shelf, tmp_path, monkeypatch):
    monkeypatch.setenv("QKV_HOME", str(tmp_path / "cache"))
    code, out, _ = call("train", "lm", "--text", shelf / "book.txt", "--out", tmp_path / "en", *SMALL)
    assert code == 0 and "parameters: 1 layers, width 32" in out and "tokenizer: characters" in out
    assert "best validation loss" in out and f"--model {shlex.quote(str(tmp_path / 'en'))}" in out
    assert any("loss" in line and "tokens/s" in line and "left" in line for line in out.splitlines())
    assert "not compiled" in out and "of peak" not in out
    code, out, _ = call("train", "lm", "--text", shelf / "book.txt", "--out", tmp_path / "zh", *SMALL, "--lang", "zh")
    assert code == 0 and "个参数" in out and "分词" in out and "词元/秒" in out and "完成" in out
    assert "未编译" not in out, "said once on a machine"


@pytest.mark.parametrize("book", ["english", "chinese"])
@pytest.mark.parametrize("task", ["lm", "mlm", "translate"])
def test_the_command_that_training_ends_with_can_be_copied(call, shelf, tmp_path, task, book):
    chinese = "床前明月光，疑是地上霜。举头望明月，低头思故乡。\n" * 40
    (tmp_path / "book.txt").write_text(chinese if book == "chinese" else TEXT, encoding="utf-8")
    data = ("--pairs", shelf / "pairs.tsv") if task == "translate" else ("--text", tmp_path / "book.txt")
    code, out, err = call("train", task, *data, "--out", tmp_path / "a run", *SMALL)
    assert code == 0, err
    command = shlex.split(out.splitlines()[-1])
    assert command[0] == "qkv" and "…" not in command[2]
    code, _, err = call(*command[1:])
    assert code == 0, err


def test_a_run_that_memorises_its_text_warns(call, tmp_path):
    (tmp_path / "book.txt").write_text("ab" * 900 + "aabbbaab" * 25)  # of which the end is held back
    steps = ["--steps", "60", "--eval-every", "10", "--set", "lr=0.03"]
    code, out, err = call("train", "lm", "--text", tmp_path / "book.txt", "--out", tmp_path / "run", *SMALL, *steps)
    assert code == 0 and "the model memorised a text that is too short for it" in out, out + err


def test_models_and_data_refuse_each_others_names(call):
    for words, sentence in (
        (("models", "get", "shakespeare"), "shakespeare is a data set, not a model: get it with `qkv data get"),
        (("data", "remove", "smollm2"), "smollm2 is a model, not a data set: get it with `qkv models get"),
        (("models", "get", "nosuch"), "there are smollm2, minilm"),
        (("data", "sample"), "give one folder for the samples"),
    ):
        code, out, err = call(*words)
        assert code == 2 and sentence in err and "enwik8" not in err and out == ""


def test_a_finished_run_resumes_only_with_more_steps(call, shelf):
    code, out, _ = call("train", "--resume", shelf / "lm")
    assert code == 0 and "all 6 steps" in out and "--steps" in out


def test_generate_continues_the_text(call, shelf):
    code, out, err = call("generate", "the cat", "--model", shelf / "lm", "--most", 20, "--seed", 1)
    assert code == 0 and out.startswith("the cat") and len(out) > 10 and "tokens/s" in err
    assert call("generate", "the cat", "--model", shelf / "lm", "--most", 20, "--seed", 1, "--quiet") == (0, out, "")
    assert call("generate", "the cat", "--model", shelf / "lm", "--most", 20, "--seed", 2, "--quiet")[1] != out


def test_a_text_ends_within_the_context_unless_most_is_larger(call, shelf):
    """What nobody asked for doesn't lead a model into lengths it never learned, and it is said why the text ends."""
    model, tokenizer = qkv.load(shelf / "lm")
    context = model.config.context
    for lang, phrase in (("en", f"context of {context} tokens"), ("zh", f"上下文只有 {context} 个词元")):
        code, out, err = call("generate", "the cat", "--model", shelf / "lm", "--lang", lang)
        assert code == 0 and len(tokenizer.encode(out.rstrip("\n"))) <= context + 1
        assert err.count(phrase) == 1 and "may make no sense" not in err
    code, out, err = call("generate", "the cat", "--model", shelf / "lm", "--most", context, "--lang", "en")
    assert code == 0 and err.count("may make no sense") == 1 and "--most N" not in err


@pytest.mark.parametrize(
    ("lang", "phrase"), [("en", "hides one character, not a word"), ("zh", "遮住一个字符，而不是一个词")]
)
def test_fill_gives_words_with_probabilities(call, shelf, lang, phrase):
    code, out, err = call("fill", "the c[MASK]t s[MASK]t", "--model", shelf / "mlm", "--top", 3, "--lang", lang)
    assert code == 0 and out.count("%") == 6 and "[MASK] 2" in out and phrase in err


def test_translate_and_beams(call, shelf):
    code, out, _ = call("translate", "cat 1", "cat 2", "--model", shelf / "translate", "--most", 8)
    assert code == 0 and len(out.splitlines()) == 2 and out.startswith("cat 1 → ")
    assert call("translate", "cat 1", "--model", shelf / "translate", "--beam", 3, "--most", 8)[0] == 0


def test_the_demo_translates_dates_at_once_offline(call):
    code, out, _ = call("translate", "15 Nov 2026", "二〇二六年十一月十五日", "November 15, 2026", "--demo")
    assert code == 0 and out.count("→ 2026-11-15") == 3 and "tools/make_demo.py" in out


def test_export_is_loaded_by_transformers(call, shelf, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from qkv.formats.model_files import load

    code, out, _ = call("export", shelf / "lm", "--out", tmp_path / "hf")
    assert code == 0 and "from_pretrained" in out
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    ours, tokenizer = load(shelf / "lm")
    ids = tokenizer.encode("the cat 我")
    assert AutoTokenizer.from_pretrained(tmp_path / "hf")("the cat 我").input_ids == ids
    with torch.no_grad():
        torch.testing.assert_close(theirs(torch.tensor([ids])).logits, ours(torch.tensor([ids])), atol=1e-4, rtol=1e-4)


def test_data_lists_and_prepares(call, shelf, tmp_path, monkeypatch):
    monkeypatch.setenv("QKV_HOME", str(tmp_path / "home"))
    code, out, _ = call("data")
    assert code == 0 and all(name in out for name in ("shakespeare", "enwik8", "hsk")) and "not here yet" in out
    assert "尚未下载" in call("data", "--lang", "zh")[1]
    code, out, _ = call("data", "prepare", shelf / "book.txt", "--out", tmp_path / "tokens", "--tokenizer", "bytes")
    assert code == 0 and json.loads((tmp_path / "tokens" / "index.json").read_text())["complete"]
    code, out, _ = call("data", "prepare", shelf / "book.txt", "--out", tmp_path / "zh", "--lang", "zh")
    assert code == 0 and "文本太短，学不出整词" in out and "different" not in out


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (["train"], "say what to train"),
        (["train", "lm"], "needs a text"),
        (["train", "lm", "--text", "{shelf}/nothing.txt"], "nothing.txt"),
        (
            ["train", "lm", "--text", "{shelf}/book.txt", "--out", "{tmp}/r", "--set", "widht=3"],
            "did you mean 'width'?",
        ),
        (["train", "lm", "--text", "{shelf}/book.txt", "--out", "{tmp}/r", "--set", "width"], "--set name=value"),
        (
            ["train", "lm", "--text", "{shelf}/book.txt", "--out", "{tmp}/r", "--preset", "tinny"],
            "did you mean 'tiny'?",
        ),
        (["train", "lm", "--text", "{shelf}/book.txt", "--out", "{shelf}/lm"], "holds a run already"),
        (["train", "lm", "--text", "{shelf}/book.txt", "--out", "{tmp}/r", "--context", "99999"], "give more text"),
        (["train", "lm", "--text", "{tmp}/empty.txt", "--out", "{tmp}/r"], "empty"),
        (["train", "lm", "--text", "{tmp}/binary.txt", "--out", "{tmp}/r"], "binary"),
        (["train", "translate", "--pairs", "{tmp}/one.tsv", "--out", "{tmp}/r"], "line 1"),
        (["train", "lm", "--text", "enwik8", "--out", "{tmp}/r"], "qkv data get enwik8"),
        (["train", "--resume", "{tmp}"], "is neither a run of qkv"),
        (["train", "lm", "--text", "{shelf}/book.txt", "--out", "{tmp}/r", "--parallel", "ddp"], "torchrun"),
        (["generate", "x"], "say which model"),
        (["generate", "--model", "{shelf}/lm"], "give a text"),
        (["generate", "the 猫", "--model", "{shelf}/lm"], "猫"),
        (["generate", "the", "--model", "{shelf}/mlm"], "needs one of kind decoder"),
        (["generate", "the", "--model", "{tmp}"], "is neither a run of qkv"),
        (["fill", "the cat", "--model", "{shelf}/mlm"], "[MASK]"),
        (["fill", "the [MASK]", "--model", "{shelf}/lm"], "needs one of kind encoder"),
        (["translate", "--model", "{shelf}/translate"], "give a text"),
        (["export", "{shelf}/translate", "--out", "{tmp}/hf"], "The nearest is T5"),
        (["data", "get"], "needs a name"),
        (["data", "get", "shakespear"], "shakespeare"),
        (["data", "prepare", "{shelf}/book.txt"], "--out"),
    ],
    ids=lambda p: " ".join(p) if isinstance(p, list) else "",
)
def test_mistakes_get_a_sentence_and_exit_2(call, shelf, tmp_path, monkeypatch, arguments, phrase):
    monkeypatch.setenv("QKV_HOME", str(tmp_path / "home"))
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "one.tsv").write_text("no tab here\n")
    code, _, err = call(*(a.format(shelf=shelf, tmp=tmp_path) for a in arguments))
    assert code == 2 and phrase in err and "Traceback" not in err, err
    assert not (tmp_path / "r" / "config.json").exists()


def test_a_damaged_model_is_reported(call, shelf, tmp_path):
    import shutil

    shutil.copytree(shelf / "lm", tmp_path / "lm")
    for file in (tmp_path / "lm" / "checkpoints").glob("*/model.safetensors"):
        file.write_bytes(file.read_bytes()[:100])
    code, _, err = call("generate", "the", "--model", tmp_path / "lm")
    assert code == 2 and "safetensors" in err and "Traceback" not in err


@pytest.mark.slow
def test_torchrun_starts_the_same_command(shelf, tmp_path):
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "29611",
        "-m",
        "qkv",
    ]
    command += ["train", "lm", "--text", str(shelf / "book.txt"), "--out", str(tmp_path / "run"), *SMALL]
    done = subprocess.run([*command, "--parallel", "fsdp"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("best validation loss") == 1


@pytest.mark.parametrize(
    ("task", "source", "base", "changes", "name"),
    [
        ("lm", {"text": "mybook.txt"}, None, {}, "lm-mybook"),
        ("mlm", {"text": "books/*.txt"}, None, {}, "mlm-books"),
        ("lm", {"text": "."}, None, {}, "lm-text"),
        ("translate", {}, None, {}, "translate-dates"),
        ("translate", {"pairs": "zh-en.tsv"}, "opus-zh-en", {}, "translate-zh-en-opus-zh-en"),
        ("lm", {"text": "mybook.txt"}, "smollm2", {}, "lm-mybook-smollm2"),
        ("lm", {"chat": "data.jsonl"}, "models/mine.gguf", {"lora": 16}, "lm-data-mine-lora"),
        ("classify", {"pairs": "reviews.tsv"}, "minilm", {}, "classify-reviews-minilm"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_run_folders_are_named_by_the_same_rule(task, source, base, changes, name):
    sources = Sources(source.get("text"), source.get("pairs"), source.get("chat"))
    assert StartOptions(task, sources, base, None, "auto", changes, None).run_name() == name
