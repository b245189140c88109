"""Whoever speaks Chinese is told everything in Chinese: every sentence has both languages, every mistake is one of them."""

import ast
import copy
import json
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
from babel.messages.catalog import Catalog

from qkv import i18n
from qkv.cli import main
from qkv.i18n import Message, Problem, Spoken, all_of, nearest, say, translated, unknown, unpacked
from tools import words as tool

HAN = re.compile("[\u4e00-\u9fff]")
ENGLISH_ONLY = "此说明只有英文"
TEXT = "".join(f"{i}: the cat sat on the mat, 我爱北京天安门 {i * i}\n" for i in range(300))
SMALL = "--set n_layer=1 --set width=32 --set n_head=2 --context 16 --batch 4 --steps 4 --eval-every 2".split()
SMALL += ["--set", "eval_batches=1"]


@pytest.fixture(scope="module")
def sentences():
    """Every sentence of the code, with the files it stands in."""
    return tool.sentences()


def test_every_sentence_is_translated_and_none_is_stale(sentences):
    """If this fails: make words, and translate what it names."""
    files = sorted(tool.LOCALE.glob("*.po"))
    assert [file.name for file in files] == ["zh_CN.po"] and len(sentences) > 2000
    assert [line for file in files for line in tool.problems(file, sentences)] == []
    for sentence in sentences:
        chinese = translated(sentence, "zh")
        if re.search("[a-z]{4}", re.sub(r"\{.*?\}|%\(.*?\).*|^qkv|`.*?`", "", sentence)) and not re.fullmatch(
            r"[\w=.:|()×+ ]+", chinese
        ):
            assert re.search("[\u3000-\u9fff\uff00-\uffef]", chinese), (sentence, chinese)
        assert not HAN.search(re.sub("“.*?”|'.*?'|\".*?\"|qkv .*|中文", "", sentence)), sentence


def test_a_reworded_sentence_keeps_its_translation():
    """By position between unchanged sentences; renamed values are renamed in the translation too."""
    catalog = Catalog(locale="zh_CN")
    for english, chinese in {
        "a start": "开始",
        "{told} keys came": "来了 {told} 个键",
        "the end": "结束",
        "cut": "切",
    }.items():
        catalog.add(english, chinese, locations=[("a.py", None)])
    now = {"a start": ["a.py"], "got {count} keys": ["a.py"], "the end": ["a.py"], "all new": ["b.py"]}
    assert tool.reworded(catalog, now) == {"got {count} keys": "{told} keys came"}
    assert tool.carry_over("{told} keys came", "got {count} keys", "来了 {told} 个键") == "来了 {count} 个键"
    assert tool.carry_over("{n:.2f} of {m}", "{n:.2f} in {size}", "{m} 里的 {n:.2f}") == "{size} 里的 {n:.2f}"


def test_sentences_are_marked_for_translation(sentences):
    """Whoever takes a sentence is known to the tool that finds them, and gets it as it stands: no f-strings, no sums."""
    kinds = [Spoken]
    for kind in kinds:
        kinds += kind.__subclasses__()
    assert {kind.__name__ for kind in kinds if kind.__module__.startswith("qkv")} - {"Spoken"} <= set(tool.KEYWORDS)
    for file in sorted(tool.SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in tool.KEYWORDS:
                where = f"{file}:{node.lineno}"
                assert not isinstance(node.args[0], ast.JoinedStr | ast.BinOp), where


def test_chinese_has_chinese_punctuation(sentences):
    """，；：！？ after a Chinese character, not their narrow forms; what stands in quotes or brackets is code."""
    code = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|\{\{.*?\}\}|\[.*?\]|\([^()]*\)")
    narrow = re.compile(HAN.pattern + r"[,;:!?]")
    assert [
        text for text in (translated(sentence, "zh") for sentence in sentences) if narrow.search(code.sub("", text))
    ] == []


def test_user_mistakes_raise_problems():
    """A bare ValueError speaks English on the Chinese command line: a user's mistake is a Problem, which is one too.

    What is left can be caused by nobody who uses qkv: laws of the doctor's own report and oracle.
    """
    bare = []
    for file in sorted(tool.SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc and re.match(r"ValueError\b", ast.unparse(node.exc)):
                bare.append(file.name)
    assert set(bare) <= {"oracle.py", "report.py"}, bare


def test_install_commands_name_the_running_python(sentences):
    """`pip install …` alone installs for whichever Python comes first, which is seldom that of a .venv: use pip_install."""
    assert not [sentence for sentence in sentences if "pip install" in sentence + translated(sentence, "zh")]


def test_in_an_environment_without_pip_uv_is_named(monkeypatch):
    assert i18n.pip_install("einops") == f"{shlex.quote(sys.executable)} -m pip install einops"
    monkeypatch.setattr(i18n.importlib.util, "find_spec", lambda name: None)
    assert i18n.pip_install("einops") == f"uv pip install --python {shlex.quote(sys.executable)} einops"


def test_an_edited_translation_shows_at_once(tmp_path, monkeypatch):
    """In a checkout the .mo follows the .po."""
    shutil.copy(tool.LOCALE / "zh_CN.po", tmp_path)
    monkeypatch.setattr(i18n, "LOCALE", str(tmp_path))
    for chinese in ("{name} 已删除", "{name} 不见了"):
        text = (tmp_path / "zh_CN.po").read_text(encoding="utf-8")
        text = re.sub('msgid "removed {name}"\nmsgstr ".*"', f'msgid "removed {{name}}"\nmsgstr "{chinese}"', text)
        (tmp_path / "zh_CN.po").write_text(text, encoding="utf-8")
        os.utime(tmp_path / "zh_CN.po", (2**31, 2**31 - 9))
        if (tmp_path / "zh_CN.mo").exists():
            os.utime(tmp_path / "zh_CN.mo", (0, 0))
        i18n._catalogue.cache_clear()
        assert say("removed {name}", "zh", name="x") == chinese.format(name="x")
    i18n._catalogue.cache_clear()


def test_a_third_language_needs_no_code(tmp_path):
    """A file more in locale/, and nothing else."""
    shutil.copytree(tool.SOURCE, tmp_path / "qkv", ignore=shutil.ignore_patterns("__pycache__"))
    german = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\nmsgid "usage: "\nmsgstr "Aufruf: "\n'
    (tmp_path / "qkv" / "locale" / "de.po").write_text(german, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run_command = [sys.executable, "-m", "qkv", "masks", "--help", "--lang", "de"]
    done = subprocess.run(run_command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith("Aufruf: qkv masks") and "--lang {en,de,zh}" in done.stdout, done.stdout + done.stderr


def test_a_problem_arrives_whole_in_another_process():
    """Processes that train together send each other what went wrong, pickled."""
    inner = Problem("there is no trace {file}", file="a")
    outer = Problem("{file} is not a readable trace: {error}", file="b", error=inner)
    for problem in (inner, outer, unknown("norm", "rsm", ["rms"])):
        for again in (pickle.loads(pickle.dumps(problem)), copy.copy(problem)):
            assert type(again) is Problem and str(again) == str(problem) and again.say("zh") == problem.say("zh")


def test_a_sentence_in_a_sentence_speaks_the_same_language():
    inner = Problem("there is no trace {file}", file="a")
    for value in (inner, Message(inner.sentence, **inner.values), all_of([inner, inner])):
        outer = Problem("{file} is not a readable trace: {error}", file="b", error=value)
        assert str(outer) == f"b is not a readable trace: {value}"
        assert outer.say("zh") == f"b 不是可读的记录文件：{value.say('zh')}"
    dog = unpacked({"en": "dog", "zh": "狗"})
    problem = Problem("{word} is not a token of the text; near ones: {near}", word=dog, near="")
    assert problem.say("zh").startswith("文本中没有词元 狗")


def test_the_nearest_word():
    assert nearest("rotery", ("none", "rotary")) == "rotary" and nearest("zzz", ("none", "rotary")) == ""
    assert (
        str(unknown("norm", "lyer", [None, "layer"])) == "norm 'lyer' is not one of None, layer; did you mean 'layer'?"
    )
    assert str(unknown("norm", 3, ["layer"])) == "norm 3 is not one of layer"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A book, pairs, small runs of each kind, and runs that something happened to."""
    folder = tmp_path_factory.mktemp("shelf")
    (folder / "book.txt").write_text(TEXT, encoding="utf-8")
    (folder / "other.txt").write_text(TEXT + "more", encoding="utf-8")
    (folder / "pairs.tsv").write_text("".join(f"cat {i}\t猫 {i}\n" for i in range(40)), encoding="utf-8")
    (folder / "one.tsv").write_text("cat\t猫\n", encoding="utf-8")
    (folder / "qkv.json").write_text(json.dumps({"q": [[1.0]], "k": [[1.0]], "v": [[1.0]]}), encoding="utf-8")
    np.savez(folder / "strange.npz", a=np.ones(2))
    for task, option, more in (
        ("lm", "--text", ["--set", "position=learned"]),
        ("mlm", "--text", []),
        ("translate", "--pairs", ["--set", "position=learned"]),
    ):
        source = folder / ("pairs.tsv" if task == "translate" else "book.txt")
        assert main(["train", task, option, str(source), "--out", str(folder / task), *SMALL, *more]) == 0
    edited(folder, "unknown-setting", lambda record: record["train"].update(stepz=3))
    edited(folder, "other-optimizer", lambda record: record["train"].update(optimizer="adamw"))
    edited(folder, "no-watch", lambda record: record.pop("watch"))
    return folder


def edited(folder, name, change):
    """A copy of the run `lm` whose config.json somebody changed."""
    shutil.copytree(folder / "lm", folder / name)
    record = json.loads((folder / name / "config.json").read_text(encoding="utf-8"))
    change(record)
    (folder / name / "config.json").write_text(json.dumps(record), encoding="utf-8")


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("QKV_LANG", "en")
    monkeypatch.setenv("QKV_HOME", str(tmp_path / "home"))

    def run_command(*arguments):
        capfd.readouterr()
        try:
            code = main([*map(str, arguments), "--lang", "zh"])
        except SystemExit as stop:
            code = stop.code
        return code, *capfd.readouterr()

    return run_command


LM = "train lm --text {shelf}/book.txt --out {tmp}/r"
LONG = "我爱北京天安门" * 3

# What somebody types : a part of what it says
MISTAKES = {
    "train": "请说明训练什么",
    "train lm": "需要文本",
    "train lmm": "lmm",
    f"{LM} --set widht=3": "是不是想写 'width'",
    f"{LM} --set qqq=3": "没有 'qqq' 这个设置",
    f"{LM} --set width": "--set 名字=值",
    f"{LM} --preset tinny": "是不是想写 tiny",
    f"{LM} --set optimizer=adam": "是不是想写 adamw",
    f"{LM} --set dtype=half": "float32、bfloat16、float64",
    f"{LM} --steps 0": "steps 是 0",
    f"{LM} --set eval_batches=many": "eval_batches 是 many",
    f"{LM} --batch 5 --set accumulate=2": "accumulate=2",
    f"{LM} --checkpoint-every 0": "1 或更大的整数",
    f"{LM} --seed -1": "seed 是 -1",
    f"{LM} --lr nan": "lr 是 nan",
    f"{LM} --set warmup=-1": "warmup 是 -1",
    f"{LM} --set decay=2": "学习率下降",
    f"{LM} --set mask_share=0": "遮住的词",
    f"{LM} --set compile=maybe": "true 或 false",
    f"{LM} --set kind=encoder": "decoder 类的模型",
    f"{LM} --set head_width=3": "成对旋转",
    f"{LM} --parallel ddp": "只有一个进程",
    f"{LM} --watch ''": "--watch 是空的",
    f"{LM} --context 16 --set position=learned --watch {LONG}": "只学 16 个位置",
    "train lm --text {shelf}/book.txt --out {shelf}/lm": "已有一次训练",
    "train lm --text enwik8 --out {tmp}/r": "qkv data get enwik8",
    "train translate --pairs {shelf}/one.tsv --out {tmp}/r": "至少要有两对",
    "train --resume {shelf}/lm --text {shelf}/other.txt": "内容变了",
    "train --resume {shelf}/unknown-setting": "是不是想写 'steps'",
    "train --resume {shelf}/other-optimizer": "优化器",
    "train --resume {shelf}/no-watch": "没有 watch",
    "generate the": "请说明用哪个模型",
    "generate --model {shelf}/lm": "请给一段文本",
    "generate the --model {shelf}/lm --most 0": "most 是 0",
    "generate the --model {shelf}/lm --most 30": "最多新增 14 个",
    f"generate {LONG} --model {{shelf}}/lm --most 3": "请缩短提示",
    "generate the --model {shelf}/lm --most 3 --temperature -1": "temperature 是 -1.0",
    "generate the --model {shelf}/lm --most 3 --top-k 0": "top_k 是 0",
    "generate the --model {shelf}/lm --most 3 --top-p 1.00001": "top_p 是 1.00001",
    "generate the --model {shelf}/lm --most 3 --repetition-penalty 0": "repetition_penalty 是 0.0",
    f"generate the --model {{shelf}}/lm --most 3 --seed {2**64}": "64 位",
    "generate the --model {shelf}/lm --most 3 --stop ''": "--stop 是空的",
    "generate the --model {shelf}/mlm": "需要 decoder 类的模型",
    "fill the --model {shelf}/mlm": "文本里没有 [MASK]",
    f"fill {LONG}[MASK] --model {{shelf}}/mlm": "只学过 16 个位置",
    "fill [MASK] --model {shelf}/mlm --top 0": "0 个猜测",
    "fill [MASK] --model {shelf}/lm": "需要 encoder 类的模型",
    "translate --model {shelf}/translate": "请给一段文本",
    "translate cat --model {shelf}/translate --beam 0": "束宽",
    "translate cat --model {shelf}/translate --most 0": "most 是 0",
    "translate cat --model {shelf}/translate --most 0 --beam 2": "most 是 0",
    "translate catcatcatcatcatcat --model {shelf}/translate": "请缩短源文",
    "translate cat --model {shelf}/lm": "需要 encoder-decoder 类的模型",
    "eval --model {shelf}/lm": "请说明用什么来衡量",
    "eval --model {shelf}/lm --text {shelf}/book.txt --pairs {shelf}/pairs.tsv": "只给一样",
    "eval the --text {shelf}/book.txt": "只给一样",
    "eval --text {shelf}/book.txt": "请说明用哪个模型",
    "eval the --model {shelf}/lm --each": "--each 要与 --pairs",
    "eval --pairs {shelf}/pairs.tsv --model {shelf}/translate --stride 4": "--stride 要与 --text",
    "eval the --model {shelf}/lm --stride 17": "步长为 17，上下文为 16",
    "eval the --model {shelf}/lm --context 0": "--context 是 0",
    f"eval {LONG} --model {{shelf}}/lm --context 17": "只学过 16 个位置",
    "eval t --model {shelf}/lm": "只有 1 个词元",
    "eval ' ' --model {shelf}/lm": "是空的",
    "eval --text {shelf}/none.txt --model {shelf}/lm": "这个文件",
    "eval the --model {shelf}/mlm": "需要 decoder 类的模型",
    "eval the --model {shelf}/translate": "编码器-解码器",
    "eval --pairs {shelf}/pairs.tsv --model {shelf}/lm": "decoder 类",
    "eval --pairs {shelf}/book.txt --model {shelf}/translate": "没有句对",
    "eval --pairs {shelf}/none.tsv --model {shelf}/translate": "没有文件",
    "export": "缺少参数",
    "export {shelf}/lm --to onnx": "onnx",
    "data get": "后面要有名字",
    "data fetch": "fetch",
    "data prepare {shelf}/book.txt": "--out 文件夹",
    "masks causl": "是不是想写 causal",
    "masks window:x": "window:LEFT[,RIGHT]",
    "masks 'causal & '": "缺少掩码的名字",
    "masks causal --n 0": "--n 是 0",
    "masks documents:0,0,1 --n 5": "文档编号",
    "masks padding:1,2 --keys 99999": "--keys 是 99999",
    "steps": "二者选一",
    "steps 我爱北京 --mask widow:2": "是不是想写 window",
    "steps 我爱北京 --mask documents:0,1": "文档编号",
    "steps 我爱北京 --heads 0": "--heads 是 0",
    "steps 我爱北京 --word 猫": "文本中没有词元 猫",
    "steps --file {shelf}/none.json": "没有",
    "steps --file {shelf}/strange.npz": "需要 q、k、v",
    "steps --file {shelf}/qkv.json --seed 3": "没有随机数",
}


@pytest.mark.parametrize("typed", MISTAKES, ids=lambda typed: typed.replace("{shelf}/", "").replace("{tmp}/", ""))
def test_a_mistake_is_reported_in_chinese(run, shelf, tmp_path, typed):
    words = [word.strip("'") for word in re.findall(r"'.*?'|\S+", typed)]
    if words[:2] == ["train", "lm"] and "--out" in words:
        words[2:2] = SMALL
    code, _, err = run(*(word.format(shelf=shelf, tmp=tmp_path) for word in words))
    assert code == 2, err
    assert HAN.search(err) and MISTAKES[typed] in err, err
    for never in (ENGLISH_ONLY, "系统报告", "Traceback", "qkv 自身的错误"):
        assert never not in err, err
    assert not (tmp_path / "r" / "config.json").exists()


def test_a_diverged_run_is_reported_in_chinese(run, shelf, tmp_path):
    rates = ["--lr", "1e30", "--set", "adam_lr=1e30", "--set", "clip=0", "--set", "warmup=0"]
    code, _, err = run("train", "lm", "--text", shelf / "book.txt", "--out", tmp_path / "r", *SMALL, *rates)
    assert code == 2 and "损失变成了 nan" in err and "还没有检查点" in err and ENGLISH_ONLY not in err, err


def test_a_run_resumes_past_a_truncated_checkpoint_in_chinese(run, shelf, tmp_path):
    shutil.copytree(shelf / "lm", tmp_path / "lm")
    last = sorted((tmp_path / "lm" / "checkpoints").glob("[0-9]*"))[-1] / "optimizer.safetensors"
    last.write_bytes(last.read_bytes()[:100])
    code, out, err = run("train", "--resume", tmp_path / "lm")
    assert code == 0 and "跳过一个损坏的检查点" in out and "文件不完整" in out and "cut short" not in out, out + err
