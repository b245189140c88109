"""Whoever speaks Chinese is told everything in Chinese: every sentence has both languages, every mistake is one of them."""

import copy
import json
import pickle
import re
import shutil
import string

import numpy as np
import pytest

from qkv.cli import main
from qkv.sentences import SENTENCES
from qkv.words import Both, Problem, nearest, say, unknown

HAN = re.compile("[\u4e00-\u9fff]")
ENGLISH_ONLY = "此说明只有英文"
TEXT = "".join(f"{i}: the cat sat on the mat, 我爱北京天安门 {i * i}\n" for i in range(300))
SMALL = "--set n_layer=1 --set width=32 --set n_head=2 --context 16 --batch 4 --steps 4 --eval-every 2".split()
SMALL += ["--set", "eval_batches=1"]


def placeholders(sentence):
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}


@pytest.mark.parametrize("key", SENTENCES)
def test_every_sentence_says_the_same_in_both(key):
    english, chinese = SENTENCES[key]
    assert placeholders(english) == placeholders(chinese)
    if re.search("[a-z]{2}", re.sub(r"\{.*?\}", "", english)) and "qkv: {sentence}" != english:
        assert HAN.search(chinese), chinese
    assert not HAN.search(re.sub("“.*?”|'.*?'|\".*?\"", "", english)), english


@pytest.mark.parametrize("key", [key for key, pair in SENTENCES.items() if "pip" in "".join(pair)])
def test_what_to_install_is_said_for_the_python_that_runs(key):
    """`pip install …` alone installs for whichever Python comes first, which is seldom that of a .venv: use pip_install."""
    assert not re.search("pip install", "".join(SENTENCES[key]))


def test_a_problem_arrives_whole_in_another_process():
    """Processes that train together send each other what went wrong, pickled."""
    inner = Problem("train.checkpoint.changed", file="a")
    for problem in (Problem("train.pairs", pairs="p.tsv", n=1), Problem("why.damaged", problem=inner)):
        for again in (pickle.loads(pickle.dumps(problem)), copy.copy(problem)):
            assert type(again) is Problem and str(again) == str(problem) and again.say("zh") == problem.say("zh")


def test_a_sentence_in_a_sentence_speaks_the_same_language():
    inner = Problem("train.checkpoint.changed", file="a")
    assert say("why.damaged", "en", problem=inner) == "passed over a damaged checkpoint: " + str(inner)
    assert say("why.damaged", "zh", problem=inner).endswith(inner.say("zh"))
    assert Problem("problem.word", word=Both("dog", "狗"), words="").say("zh").startswith("文中没有 狗")


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
    for task, given, more in (
        ("lm", "--text", ["--set", "position=learned"]),
        ("mlm", "--text", []),
        ("translate", "--pairs", ["--set", "position=learned"]),
    ):
        source = folder / ("pairs.tsv" if task == "translate" else "book.txt")
        assert main(["train", task, given, str(source), "--out", str(folder / task), *SMALL, *more]) == 0
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
def told(capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("QKV_LANG", "en")
    monkeypatch.setenv("QKV_HOME", str(tmp_path / "home"))

    def ask(*arguments):
        capfd.readouterr()
        try:
            code = main([*map(str, arguments), "--lang", "zh"])
        except SystemExit as stop:
            code = stop.code
        return code, *capfd.readouterr()

    return ask


LM = "train lm --text {shelf}/book.txt --out {tmp}/r"
LONG = "我爱北京天安门" * 3

# What somebody types : a part of what it says
MISTAKES = {
    "train": "请说明训练什么",
    "train lm": "需要文本",
    "train lmm": "lmm",
    f"{LM} --set widht=3": "是不是想写 width",
    f"{LM} --set qqq=3": "没有 'qqq' 这个设置",
    f"{LM} --set width": "--set 名字=值",
    f"{LM} --preset tinny": "是不是想写 tiny",
    f"{LM} --set optimizer=adam": "是不是想写 adamw",
    f"{LM} --set dtype=half": "float32、bfloat16、float64",
    f"{LM} --steps 0": "steps 是 0",
    f"{LM} --set eval_batches=many": "eval_batches 是 many",
    f"{LM} --batch 5 --set accumulate=2": "accumulate=2",
    f"{LM} --checkpoint-every 0": "1 步或更多",
    f"{LM} --seed -1": "种子 seed 是 -1",
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
    "train --resume {shelf}/unknown-setting": "是不是想写 steps",
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
    "translate catcatcatcatcatcat --model {shelf}/translate": "请缩短源文本",
    "translate cat --model {shelf}/lm": "需要 encoder-decoder 类的模型",
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
    "steps 我爱北京 --word 猫": "文中没有 猫",
    "steps --file {shelf}/none.json": "没有",
    "steps --file {shelf}/strange.npz": "需要 q、k、v",
    "steps --file {shelf}/qkv.json --seed 3": "没有随机数",
}


@pytest.mark.parametrize("typed", MISTAKES, ids=lambda typed: typed.replace("{shelf}/", "").replace("{tmp}/", ""))
def test_a_mistake_is_told_in_chinese(told, shelf, tmp_path, typed):
    words = [word.strip("'") for word in re.findall(r"'.*?'|\S+", typed)]
    if words[:2] == ["train", "lm"] and "--out" in words:
        words[2:2] = SMALL
    code, _, err = told(*(word.format(shelf=shelf, tmp=tmp_path) for word in words))
    assert code == 2, err
    assert HAN.search(err) and MISTAKES[typed] in err, err
    for never in (ENGLISH_ONLY, "系统报告", "Traceback", "qkv 自身的错误"):
        assert never not in err, err
    assert not (tmp_path / "r" / "config.json").exists()


def test_a_lost_run_says_so_in_chinese(told, shelf, tmp_path):
    rates = ["--lr", "1e30", "--set", "adam_lr=1e30", "--set", "clip=0", "--set", "warmup=0"]
    code, _, err = told("train", "lm", "--text", shelf / "book.txt", "--out", tmp_path / "r", *SMALL, *rates)
    assert code == 2 and "损失变成了 nan" in err and "还没有检查点" in err and ENGLISH_ONLY not in err, err


def test_a_run_goes_on_past_a_cut_checkpoint_and_says_so_in_chinese(told, shelf, tmp_path):
    shutil.copytree(shelf / "lm", tmp_path / "lm")
    last = sorted((tmp_path / "lm" / "checkpoints").glob("[0-9]*"))[-1] / "optimizer.safetensors"
    last.write_bytes(last.read_bytes()[:100])
    code, out, err = told("train", "--resume", tmp_path / "lm")
    assert code == 0 and "跳过一个损坏的检查点" in out and "文件不完整" in out and "cut short" not in out, out + err
