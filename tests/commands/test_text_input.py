"""Texts through pipes and from files: lines in, lines out, in order; and what is no text is told."""

import io
import os
import shlex
import shutil
import subprocess
import sys
from datetime import date, timedelta

import pytest
import torch

from qkv.cli import main
from qkv.commands.text_input import read_lines
from qkv.formats.model_files import load
from qkv.generation import batching


@pytest.fixture
def call(capfd, monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")

    def run_command(*arguments):
        capfd.readouterr()
        return main([str(each) for each in arguments]), *capfd.readouterr()

    return run_command


@pytest.fixture
def pipe(monkeypatch):
    """Puts bytes where a pipe's would be."""

    def put(raw):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))

    return put


@pytest.fixture
def small_batches(monkeypatch):
    """So that a few lines make several windows of several batches."""
    monkeypatch.setattr(batching, "WINDOW", 7)
    monkeypatch.setattr(batching, "ROWS", 3)


def dates(count):
    """Days in forms of different lengths."""
    from qkv.text.dates import FORMS

    return [FORMS[i * 7 % len(FORMS)](date(1999, 1, 1) + timedelta(days=777 * i % 30000)) for i in range(count)]


@pytest.mark.parametrize("beam", [1, 3])
def test_lines_are_translated_in_order_each_as_alone(call, pipe, tmp_path, small_batches, beam):
    rows = dates(17)
    rows[3:3], rows[8:8] = [""], ["  "]
    alone = [
        call("translate", text, "--demo", "--beam", beam)[1].splitlines()[-1] if text.strip() else "" for text in rows
    ]
    expected = "".join(line.rpartition("→ ")[2] + "\n" for line in alone)
    for ending in ("\n", "\r\n"):
        pipe(ending.join(rows).encode("utf-8-sig") + ending.encode())
        code, out, err = call("translate", "-", "--demo", "--beam", beam)
        assert (code, out) == (0, expected) and "tools/make_demo.py" in err, "only translations on stdout"
    (tmp_path / "in.txt").write_text("\n".join(rows), encoding="utf-8")  # no line end at the end
    assert call("translate", "--file", tmp_path / "in.txt", "--demo", "--beam", beam)[1] == expected


@pytest.mark.parametrize("how", [["--temperature", 0], ["--temperature", 1, "--seed", 5, "--stop", "a"]], ids=str)
def test_beginnings_go_on_each_as_alone(call, shelf, pipe, small_batches, how):
    options = ["--model", shelf / "lm", "--most", 12, "--quiet", *how]
    texts = ["the cat", "1: the", "", "sat on the mat", "我爱北京", "t", "2", "on the", "mat, 我", "7: t", "a"]
    alone = [call("generate", text, *options)[1][:-1].replace("\n", "\\n") if text else "" for text in texts]
    pipe("\n".join(texts).encode())
    assert call("generate", "-", *options) == (0, "".join(line + "\n" for line in alone), "")


def test_gaps_are_filled_line_by_line(call, shelf, tmp_path):
    texts = ["the c[MASK]t s[MASK]t", "", "我爱[MASK]京"]
    (tmp_path / "gaps.txt").write_text("\n".join(texts), encoding="utf-8")
    code, out, _ = call("fill", "--file", tmp_path / "gaps.txt", "--model", shelf / "mlm")
    expected = []
    for text in texts:
        for block in call("fill", text, "--model", shelf / "mlm", "--top", 1)[1].split("[MASK]")[1:] if text else []:
            text = text.replace("[MASK]", block.splitlines()[1].split()[0], 1)
        expected.append(text)
    assert code == 0 and out.splitlines() == expected and "[MASK]" not in out


def test_whole_texts_come_through_a_pipe_or_from_a_file(call, shelf, pipe, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat\n", encoding="utf-8")
    for verb, more in (
        ("steps", []),
        ("steps", ["--model", shelf / "lm"]),
        ("see", ["--model", shelf / "lm"]),
        ("importance", ["--model", shelf / "lm"]),
    ):
        expected = call(verb, "the cat sat", *more)
        assert expected[0] == 0
        pipe(b"the cat sat\n")
        piped = call(verb, "-", *more)
        filed = call(verb, "--file", tmp_path / "text.txt", *more)
        if verb == "importance":  # it says first how much of a long text it takes
            piped, filed = ((code, out.partition("\n")[2], err) for code, out, err in (piped, filed))
        assert piped == expected and filed == expected, verb


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_real_pipe_gives_a_line_for_each_and_is_not_read_unasked(tmp_path):
    qkv = f"{shlex.quote(sys.executable)} -m qkv"
    script = f"""
        printf '15 Nov 2026\\n\\n2026年11月15日' | {qkv} translate - --demo > out.txt 2> err.txt; echo $?
        printf '15 Nov 2026\\n' | {qkv} translate --model nothing 2> unasked.txt; echo $?
        printf '' | {qkv} translate - --demo 2> none.txt; echo $?
        {qkv} translate - --demo 2> closed.txt <&-; echo $?
    """
    env = {name: value for name, value in os.environ.items() if name not in ("QKV_LANG", "LANG", "LC_ALL")}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, encoding="utf-8")
    assert done.stdout.split() == ["0", "2", "0", "2"], done.stderr
    assert (tmp_path / "out.txt").read_bytes() == b"2026-11-15\n\n2026-11-15\n"
    assert len((tmp_path / "err.txt").read_text().splitlines()) == 1, "what the demo is; no progress where none looks"
    assert "give a text" in (tmp_path / "unasked.txt").read_text()
    assert "stdin is closed" in (tmp_path / "closed.txt").read_text()


GBK = "我爱北京\n第二行".encode("gb18030")


@pytest.mark.parametrize(
    ("raw", "arguments", "phrases"),
    [
        (
            b"15 Nov 2026\n" + GBK,
            ["translate", "-", "--demo"],
            ("in line 2 is not UTF-8", "第 2 行的字节 ce 不是 UTF-8"),
        ),
        ("the cat".encode("utf-16"), ["steps", "-"], ("byte ff in line 1", "第 1 行的字节 ff")),
        (b"\n \n", ["see", "-", "--model", "x"], ("give a text", "请给一段文本")),
        (b"a\n", ["see", "-", "--file", "x"], ("in one way", "一种方式")),
        (b"a\n", ["translate", "a", "-", "--demo"], ("in one way", "一种方式")),
        (b"", ["translate", "--file", "none.txt", "--demo"], ("there is no file none.txt", "没有 none.txt 这个文件")),
        (b"", ["translate", "--file", "{tmp}", "--demo"], ("that is a folder", "这是一个文件夹")),
        (b"a", ["chat", "\udcff"], ("not UTF-8, at character 1", "第 1 个字符不是 UTF-8")),
        (b"a", ["generate", "x\udcff", "--model", "x"], ("not UTF-8, at character 2", "第 2 个字符不是 UTF-8")),
        (b"a", ["fill", "-", "--top", "3", "--model", "x"], ("--top goes with one text", "--top 只用于单段文本")),
        (
            b"",
            ["translate", "hello", "--demo"],
            ("hello is not a date in a form that this small model learned", "“hello”不是这个小模型学过的日期写法"),
        ),
    ],
    ids=lambda p: " ".join(map(ascii, p)) if isinstance(p, list) else "",
)
def test_invalid_input_is_reported_before_anything_is_printed(call, pipe, tmp_path, raw, arguments, phrases):
    for lang, sentence in zip(("en", "zh"), phrases, strict=True):
        pipe(raw)
        code, out, err = call(*(each.format(tmp=tmp_path) for each in arguments), "--lang", lang)
        assert (code, out) == (2, "") and sentence in err, out + err


def test_only_line_ends_end_lines(pipe):
    pipe("a\x0cb\u2028c\x85d\r\n\n\ne".encode())
    assert read_lines(["-"], None, "") == ["a\x0cb\u2028c\x85d", "", "", "e"]


@pytest.mark.parametrize(
    ("verb", "text", "model", "answered", "phrases"),
    [
        ("fill", "the [MASK]\n\nthe cat\nthe [MASK]\n", "mlm", [1, 0, 0, 1], "line 3: the text has no [MASK]"),
        ("generate", f"the\n{'the cat ' * 20}\nthe", "lm", [1, 0, 1], "line 2: the prompt has 160 tokens"),
        (
            "translate",
            "15 Nov 2026\n\n31 November 2026\n4 May 2026\n",
            None,
            [1, 0, 0, 1],
            "line 3: 31 November 2026 is not a date",
        ),
    ],
)
def test_a_line_that_fails_is_named_and_skipped_and_nothing_is_lost(
    call, shelf, pipe, verb, text, model, answered, phrases
):
    pipe(text.encode())
    code, out, err = call(verb, "-", *(["--demo"] if model is None else ["--model", shelf / model]))
    assert code == 1 and phrases in err and "lines left out, as named above: 1" in err
    assert [bool(line) for line in out.splitlines()] == [bool(each) for each in answered], out
    if verb == "translate":
        assert out.splitlines() == ["2026-11-15", "", "", "2026-05-04"]


def test_answers_come_in_the_order_of_the_texts_however_they_are_cut():
    drawn = torch.rand(300, generator=torch.Generator().manual_seed(0)) ** 6  # many short ones, few long ones
    lengths = [1 + int(899 * share) for share in drawn]
    batches = []

    def answer(batch):
        batches.append(batch)
        return [-n for n in batch]

    assert list(batching.in_batches(lengths, int, answer)) == [-n for n in lengths]
    assert all(len(batch) == 1 or len(batch) * max(batch) <= batching.TOKENS for batch in batches)
    assert max(map(len, batches)) == batching.ROWS and len(batches) < 150


@pytest.mark.slow
def test_a_real_translator_gives_the_same_output_line_by_line(capfd, tmp_path):
    """On 64 sentences of learners' Chinese, lengths mixed: the same words as one by one."""
    from qkv.generation.decoding import translate
    from qkv.library import store

    texts = [line.split("\t")[1] for line in store.get("hsk").read_text(encoding="utf-8").splitlines()[::67][:64]]
    store.get("opus-zh-en")
    (tmp_path / "in.txt").write_text("\n".join(texts), encoding="utf-8")
    assert main(["translate", "--file", str(tmp_path / "in.txt"), "--model", "opus-zh-en"]) == 0
    model, tokenizer = load("opus-zh-en")
    assert capfd.readouterr().out.splitlines() == [translate(model, tokenizer, [text])[0] for text in texts]


@pytest.mark.parametrize(("lang", "phrases"), [("en", "context is 16"), ("zh", "上下文是 16 个")])
def test_a_text_beyond_the_context_is_reported_once(call, shelf, lang, phrases):
    for verb in ("see", "steps", "importance"):
        code, out, err = call(verb, "the cat sat on the mat", "--model", shelf / "lm", "--lang", lang)
        assert code == 0 and out and err.count(phrases) == 1 and len(err.splitlines()) == 1, err
        assert phrases not in call(verb, "the cat sat", "--model", shelf / "lm", "--lang", lang)[2]


def test_a_file_is_weighed_in_pieces_that_the_model_learned(call, shelf):
    code, out, err = call("importance", "--file", shelf / "book.txt", "--model", shelf / "lm", "--top", 1)
    assert code == 0 and err == "" and "2048 of the file's" in out


def test_a_text_that_grows_beyond_the_context_is_reported_after_it(call, shelf):
    code, out, err = call("generate", "the cat", "--model", shelf / "lm", "--most", 20)
    assert code == 0 and err.count("beyond the model's context of 16") == 1 and "context" not in out
    assert "beyond" not in call("generate", "the cat", "--model", shelf / "lm", "--most", 10)[2]
