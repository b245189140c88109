"""The command line as a person meets it: what it prints, in both languages, and what it says to mistakes."""

import errno
import importlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from qkv import __version__, cli, steps
from qkv.cli import FIRST, GROUPS, VERBS, main
from qkv.commands.steps import tokens
from qkv.lab import EXPERIMENTS
from qkv.terminal.text_grid import width

ROOT = Path(__file__).resolve().parents[2]
OFFLINE = ["steps", "masks"]  # verbs whose example needs no model and no download


def run(*arguments, **environment):
    """(exit code, what was printed, what was complained), in a process of its own."""
    env = {k: v for k, v in os.environ.items() if k not in ("LANG", "LC_ALL", "LC_MESSAGES", "QKV_LANG")}
    done = subprocess.run(
        [sys.executable, "-m", "qkv", *map(str, arguments)], capture_output=True, env=env | environment, timeout=60
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def call(capfd, monkeypatch):
    """The same in this process, quicker."""
    monkeypatch.setenv("QKV_LANG", "en")

    def run_command(*arguments):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as stop:
            code = stop.code
        out, err = capfd.readouterr()
        return code, out, err

    return run_command


def test_bare_qkv_lists_the_verbs_by_group_with_an_example_each():
    wide = {"COLUMNS": "200"}  # pytest's processes are told a width
    code, out, _ = run(**wide)
    assert code == 0
    for example, english in VERBS.values():
        assert re.search(rf"^  {re.escape(example)}  +{re.escape(english)}$", out, re.MULTILINE), example
    assert sorted(verb for verbs in GROUPS.values() for verb in verbs) == sorted(VERBS)
    assert [out.index(f"\n{name}:\n") for name in GROUPS] == sorted(out.index(f"\n{name}:\n") for name in GROUPS)
    assert run("--help", **wide)[1] == run("help", **wide)[1] == out


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_overview_fits_a_terminal_of_80_columns(lang, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = call("help", "--lang", lang)
    lines = out.splitlines()
    assert code == 0 and max(map(width, lines)) <= 80 and len(lines) < 45
    assert len(FIRST) == 5 and [line.split("  ")[1] for line in lines[3:8]] == [command for command, _ in FIRST]
    for verb in VERBS:
        assert any(line.startswith(f"  {verb} ") for line in lines[9:]), verb


def test_help_of_a_verb_is_its_own_help(call):
    for verb in ("steps", "train"):
        assert call("help", verb) == call(verb, "--help")
    assert call("help", "lab", "scaling") == call("lab", "scaling", "--help")
    code, _, err = call("help", "stpes")
    assert code == 2 and "did you mean steps?" in err
    assert call("help", "steps", "--lang", "zh") == call("steps", "--help", "--lang", "zh")


def test_help_is_quick_because_nothing_heavy_is_imported():
    script = "import sys; sys.argv = ['qkv', '--help']; from qkv.cli import main; main(); print('', *sys.modules)"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "numpy", "rich", "transformers"} & set(out.splitlines()[-1].split())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_in_both_languages(verb):
    _, english, _ = run(verb, "--help")
    code, chinese, _ = run(verb, "--help", "--lang", "zh")
    assert code == 0 and "usage:" in english and "examples:" in english
    assert "用法：" in chinese and "例子：" in chinese and "选项" in chinese
    assert "usage" not in chinese and "show this help" not in chinese
    assert "选项：\n" in chinese and not re.search("[\u4e00-\u9fff]:", chinese)


@pytest.mark.parametrize("verb", OFFLINE)
def test_the_example_of_every_verb_runs(verb, call):
    code, out, err = call(*shlex.split(VERBS[verb][0])[1:])
    assert code == 0 and out and not err


@pytest.mark.parametrize(
    "setting", [{"LANG": "zh_CN.UTF-8"}, {"LC_ALL": "zh_TW.UTF-8", "LANG": "en_US"}, {"QKV_LANG": "zh"}], ids=str
)
def test_language_from_the_environment(setting):
    assert "一步一步" in run(**setting)[1]
    assert "step by step" in run("--lang", "en", **setting)[1]


@pytest.mark.parametrize(
    "arguments",
    [["--lang", "zh", "--version"], ["--version"], ["--lang=en", "--version"], ["--version", "--lang", "zh"]],
    ids=" ".join,
)
def test_version(arguments, call):
    assert call(*arguments)[:2] == (0, f"qkv {__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--lang", "zh", "steps", "a"],
        ["steps", "--lang", "zh", "a"],
        ["steps", "a", "--lang=zh"],
        ["--lang=zh_CN", "steps", "a"],
    ],
    ids=" ".join,
)
def test_lang_may_stand_anywhere(arguments, call):
    code, out, _ = call(*arguments)
    assert code == 0 and "一步一步" in out


def test_chinese_survives_an_ascii_terminal():
    code, out, _ = run("steps", "我 爱 北京", "--lang", "zh", PYTHONIOENCODING="ascii")
    assert code == 0 and "北京" in out


def test_steps_prints_what_the_library_computes(call):
    code, out, _ = call("steps", "我 爱 北京", "--mask", "causal", "--json")
    content = json.loads(out)
    assert code == 0 and content["queries"] == ["我", "爱", "北京"]
    weights = np.array(content["weights"])
    np.testing.assert_allclose(weights.sum(-1), 1)
    assert (weights[np.triu_indices(3, 1)] == 0).all()
    np.testing.assert_allclose(weights @ np.array(content["v"]), content["output"])
    q, k = np.array(content["q"]), np.array(content["k"])
    np.testing.assert_allclose(q @ k.T / 2, content["scaled"])
    _, text, _ = call("steps", "我 爱 北京", "--mask", "causal")
    for value in weights[2]:
        assert f"{value:.3f}" in text


def test_steps_as_a_picture(call, tmp_path):
    code, out, _ = call(
        "steps", "我 爱 北京", "--mask", "causal", "--heads", "2", "--head", "1", "--png", str(tmp_path / "s.svg")
    )
    drawn = (tmp_path / "s.svg").read_text(encoding="utf-8")
    assert code == 0 and out.rstrip().endswith("s.svg") and "北京" in drawn and "softmax" in drawn
    for wrong, phrase in (
        (["--png", str(tmp_path / "s.txt")], "should end in"),
        (["--png", "s.png", "--json"], "doesn't go"),
        (["--png", str(tmp_path / "s.svg" / "x.png")], "s.svg"),
    ):
        code, _, err = call("steps", "我 爱 北京", *wrong)
        assert code == 2 and phrase in err


def test_steps_reports_random_vectors_and_is_reproducible(call):
    first = call("steps", "a b", "--seed", 3)
    assert first == call("steps", "a b", "--seed", 3) != call("steps", "a b", "--seed", 4)
    assert "W_q, W_k, W_v are drawn at random from seed 3" in first[1]
    assert "W_q, W_k, W_v, W_o are drawn" in call("steps", "a b", "--heads", 2)[1]


def test_every_number_follows_from_printed_numbers(call):
    """From x and the matrices to the output, with nothing but what --json gives."""
    content = json.loads(call("steps", "a b c", "--heads", 2, "--memory", "d e", "--json")[1])
    x, memory, w_q, w_k, w_v, w_o = (np.array(content[name]) for name in ("x", "memory", "w_q", "w_k", "w_v", "w_o"))
    outputs = []
    for columns in (slice(0, 4), slice(4, 8)):
        raised = np.exp(x @ w_q[:, columns] @ (memory @ w_k[:, columns]).T / 2)
        outputs.append(raised / raised.sum(-1, keepdims=True) @ memory @ w_v[:, columns])
    np.testing.assert_allclose(np.hstack(outputs) @ w_o, content["output"])
    text = call("steps", "a b c")[1]
    assert all(f"{title}  (" in text for title in ("x", "W_q", "W_k", "W_v", "Q", "K", "V"))


def test_the_same_word_has_the_same_vector_until_positions_come(call):
    same = json.loads(call("steps", "a b a", "--json")[1])
    assert same["q"][0] == same["q"][2]
    placed = json.loads(call("steps", "a b a", "--position", "sinusoidal", "--json")[1])
    assert placed["q"][0] != placed["q"][2]


def test_cross_heads_padding_no_scale(call):
    content = json.loads(
        call("steps", "a b", "--memory", "x y [PAD]", "--mask", "padding", "--heads", 2, "--no-scale", "--json")[1]
    )
    assert (
        content["shapes"]["weights"] == [2, 2, 3] and content["scale"] == 1.0 and content["keys"] == ["x", "y", "[PAD]"]
    )
    assert np.array(content["weights"])[..., 2].tolist() == [[0, 0], [0, 0]]
    assert content["shapes"]["output"] == [2, 8]


def test_padding_combines_like_any_mask(call):
    for text, hidden in (("causal|padding", 2), ("~padding", 6), ("padding & causal", 4)):
        masked = json.loads(call("steps", "a b [PAD]", "--mask", text, "--json")[1])["masked"]
        assert sum(value is None for row in masked for value in row) == hidden, text


def test_cross_attention_names_the_source_of_its_keys(call):
    assert "k = memory·W_k" in call("steps", "I love", "--memory", "我 爱 北京")[1]
    assert "Three views of the same words" in call("steps", "I love")[1]


def test_word_and_tiles(call):
    code, out, _ = call("steps", "今天天气真好，我想出去玩", "--word", "玩", "--tiles", 4)
    assert code == 0 and "The row of 玩" in out and "4 keys at a time" in out
    assert call("steps", "a b a", "--word", "a")[1].count("The row of a") == 2


def test_word_and_tiles_in_json(call):
    content = json.loads(call("steps", "a b a", "--word", "a", "--tiles", 2, "--heads", 2, "--head", 1, "--json")[1])
    assert [each["row"] for each in content["word"]["rows"]] == [0, 2] and content["word"]["word"] == "a"
    np.testing.assert_allclose(np.sum(content["word"]["rows"][1]["terms"], axis=0), content["heads"][1][2])
    assert content["tiles"]["block"] == 2 and content["tiles"]["head"] == 1
    np.testing.assert_allclose(content["tiles"]["output"], content["heads"][1])


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("दिल्ली", ["दिल्ली"]),
        ("मैं दिल्ली में", ["मैं", "दिल्ली", "में"]),
        ("cafe\u0301", ["caf\u00e9"]),
        ("un cafe\u0301!", ["un", "caf\u00e9", "!"]),
        ("g\u0303a b", ["g\u0303a", "b"]),
        ("สวัสดี ครับ", ["สวัสดี", "ครับ"]),
        ("don't", ["don't"]),
        ("well-known 'quotes'", ["well-known", "'", "quotes", "'"]),
        ("我爱GPT！", ["我", "爱", "GPT", "！"]),
        ("が\u3099", ["が\u3099"]),
        ("[CLS] a [PAD]", ["[CLS]", "a", "[PAD]"]),
        ("我[PAD]", ["我", "[PAD]"]),
        (" \t ", []),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_marks_stay_with_their_letter(text, pieces):
    assert tokens(text) == pieces


def test_a_word_matches_with_either_form_of_its_accent(call):
    code, out, _ = call("steps", "un cafe\u0301", "--word", "cafe\u0301")
    assert code == 0 and "The row of caf\u00e9" in out
    assert call("steps", "un cafe\u0301", "--word", "caf\u00e9")[0] == 0


@pytest.mark.parametrize("kind", ["json", "npz"])
def test_own_matrices(kind, call, tmp_path):
    rng = np.random.default_rng(0)
    tables = {name: rng.normal(size=(3, 4)) for name in ("q", "k", "v")}
    file = tmp_path / f"m.{kind}"
    if kind == "json":
        file.write_text(json.dumps({k: v.tolist() for k, v in tables.items()} | {"names": ["我", "b", "c"]}))
    else:
        np.savez(file, **tables)
    content = json.loads(call("steps", "--file", file, "--json")[1])
    scores = tables["q"] @ tables["k"].T / 2
    np.testing.assert_allclose(content["scaled"], scores)
    assert call("steps", "--file", file, "--tiles", 2, "--word", "我" if kind == "json" else "q0")[0] == 0


def test_own_word_vectors(call, tmp_path):
    x, w = np.random.default_rng(0).normal(size=(2, 3, 4)), np.eye(4)
    file = tmp_path / "m.npz"
    np.savez(file, x=x, w_q=w, w_k=w, w_v=2 * w, w_o=w, mask=np.tri(3) == 1)
    content = json.loads(call("steps", "--file", file, "--heads", 2, "--json")[1])
    expected = steps(x, w, w, 2 * w, w, n_head=2, mask=np.tri(3) == 1)
    np.testing.assert_allclose(content["output"], expected.output)


@pytest.mark.parametrize("name", ["bom.json", "BIG.JSON"])
def test_files_as_windows_writes_them(name, call, tmp_path):
    (tmp_path / name).write_text('{"x": [[1, 0], [0, 1]]}', encoding="utf-8-sig" if name == "bom.json" else "utf-8")
    assert call("steps", "--file", tmp_path / name)[0] == 0


@pytest.mark.parametrize("mask", ["[[1, 0], [1, 1]]", "[[true, false], [true, true]]", "[[1.0, 0], [true, 1]]"])
def test_a_mask_in_a_file_may_hold_1_and_0(mask, call, tmp_path):
    (tmp_path / "m.json").write_text(f'{{"x": [[1, 0], [0, 1]], "mask": {mask}}}')
    content = json.loads(call("steps", "--file", tmp_path / "m.json", "--json")[1])
    assert content["weights"][0] == [1, 0] and content["masked"][0][1] is None


def test_the_example_file_is_what_it_seems(call):
    code, out, _ = call("steps", "--file", ROOT / "examples" / "matrices.json", "--json")
    matrices, content = json.loads((ROOT / "examples" / "matrices.json").read_text(encoding="utf-8")), json.loads(out)
    assert code == 0 and content["queries"] == matrices["names"]
    np.testing.assert_allclose(np.array(matrices["x"]) @ matrices["w_q"], content["q"])


def broken(tmp_path):
    files = {
        "missing.json": None,
        "empty.json": b"",
        "text.json": b"{not json",
        "list.json": b"[1, 2]",
        "keys.json": b'{"q": [[1]], "k": [[1]]}',
        "ragged.json": b'{"q": [[1, 2], [3]], "k": [[1, 2]], "v": [[1, 2]]}',
        "words.json": b'{"q": [["a"]], "k": [[1]], "v": [[1]]}',
        "nan.json": b'{"q": [[NaN]], "k": [[1]], "v": [[1]]}',
        "deep.json": b"[" * 100000,
        "cut.npz": b"PK\x03\x04 not a zip",
        "binary.json": bytes(range(256)),
        "mask.json": b'{"q": [[1]], "k": [[1]], "v": [[1]], "mask": [[0.5]]}',
        "names.json": b'{"q": [[1]], "k": [[1]], "v": [[1]], "names": ["a", "b"]}',
        "shape.json": b'{"q": [[1, 2]], "k": [[1]], "v": [[1]]}',
        "width.json": b'{"x": [[]]}',
        "widths.json": b'{"q": [[]], "k": [[]], "v": [[]]}',
        "rows.npz": {"x": np.zeros((0, 3))},
        "batch.npz": {"q": np.zeros((0, 2, 3)), "k": np.zeros((0, 2, 3)), "v": np.zeros((0, 2, 3))},
        "batches.json": b'{"q": [[[1]]], "k": [[[1]], [[1]]], "v": [[[1]], [[1]]]}',
        "values.json": b'{"q": [[1]], "k": [[1]], "v": [[1], [1]]}',
        "memory.json": b'{"x": [[[1]]], "memory": [[1]]}',
        "number.json": b'{"q": [[1]], "k": [[1]], "v": [[1]], "names": 5}',
        "string.json": b'{"q": [[1]], "k": [[1]], "v": [[1]], "names": "a"}',
        "nested.json": b'{"q": [[1]], "k": [[1]], "v": [[1]], "names": [["a"]]}',
        "large.json": b'{"x": [[1' + b"0" * 400 + b"]]}",
        "long.json": b'{"x": [[1' + b"0" * 5000 + b"]]}",
        "huge.json": b'{"x": [[1e308, 1e308]]}',
        "wq.json": b'{"x": [[1]], "wq": [[2]]}',
        "mixed.json": b'{"x": [[1]], "q": [[1]], "k": [[1]], "v": [[1]]}',
        "ragged mask.json": b'{"x": [[1]], "mask": [[1], [1, 0]]}',
        "null mask.json": b'{"x": [[1]], "mask": [[null]]}',
        "flat mask.json": b'{"x": [[1]], "mask": [1]}',
        "complex.npz": {"x": np.array([[1j]])},
        "words.npz": {"x": np.array([["a"]])},
        "null.json": b'{"x": null}',
    }
    np.savez_compressed(tmp_path / "whole.npz", x=np.arange(2000.0).reshape(20, 100))
    whole = (tmp_path / "whole.npz").read_bytes()
    files["method.npz"] = whole.replace(b"\x08\x00\x00\x00!\x00", b"\x63\x00\x00\x00!\x00")  # an unknown compression
    files["short.npz"] = whole[: len(whole) // 2]
    files["secret.npz"] = whole.replace(b"\x2d\x00\x00\x00\x08", b"\x2d\x00\x01\x00\x08")
    files |= {f"at {i}.npz": whole[:i] + bytes([whole[i] ^ 0x5A]) + whole[i + 1 :] for i in range(60, len(whole), 97)}
    for name, content in files.items():
        if isinstance(content, dict):
            np.savez(tmp_path / name, **content)
        elif content is not None:
            (tmp_path / name).write_bytes(content)
    return files


def test_a_bad_file_gets_a_sentence_and_exit_2(call, tmp_path):
    for name in broken(tmp_path):
        for lang in ("en", "zh"):
            code, out, err = call("steps", "--file", tmp_path / name, "--lang", lang)
            assert (code, out) == (2, ""), name
            assert err.startswith("qkv") and "Traceback" not in err and len(err.strip().splitlines()) == 1, (name, err)
            assert "bug in qkv" not in err and "自身的错误" not in err
            assert lang == "en" or ("只有英文" not in err and re.search("[一-鿿]", err)), err


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        (b'{"x": [[1]], "wq": [[2]]}', "holds wq, which is not used. Did you mean w_q?"),
        (b'{"x": [[1]], "W_q": [[2]]}', "Did you mean w_q?"),
        (b'{"q": [[1]], "k": [[1]], "v": [[1]], "rotary": 1}', "may hold q, k, v, mask, names, memory_names"),
        (b'{"x": [[1e308, 1e308]]}', "scores at (0, 0, 0, 0) is inf"),
        (b'{"x": [[1],\n [2]', "not JSON at line 2, column 5"),
        (b'{"x": [[1]], "names": 5}', "names is 5: give a list"),
        (b'{"x": [[1]], "mask": [[0.5]]}', "the mask holds 0.5"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_what_is_wrong_with_a_file(content, phrase, call, tmp_path):
    (tmp_path / "m.json").write_bytes(content)
    code, _, err = call("steps", "--file", tmp_path / "m.json")
    assert code == 2 and phrase in err


def test_a_pickle_is_not_opened(call, tmp_path):
    np.save(tmp_path / "m.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "m.npz", q=np.array([{"a": 1}], dtype=object))
    code, _, err = call("steps", "--file", tmp_path / "m.npz")
    assert code == 2 and "can't be read" in err


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (["steps"], "give a text or --file"),
        (["steps", "a", "--file", "b.json"], "one of the two"),
        (["steps", "  "], "the text is empty"),
        (["steps", "a b", "--word", "c"], "c is not a token of the text, whose tokens are: a, b"),
        (["steps", "a b", "--heads", "0"], "--heads is 0"),
        (["steps", "a b", "--heads", "3", "--dim", "4"], "doesn't divide into 3 heads"),
        (["steps", "a b", "--head", "1"], "--head is 1: give 0 … 0"),
        (["steps", "a b", "--dim", "0"], "--dim is 0"),
        (["steps", "a b", "--seed", "-1"], "--seed is -1"),
        (["steps", "a b", "--tiles", "0"], "--tiles is 0"),
        (["steps", "a b", "--mask", "casual"], "Did you mean causal?"),
        (["steps", "a b", "--mask", "padding:1,2"], "given for 2 items"),
        (["steps", "a b", "--mask", ""], "--mask is empty"),
        (["steps", "a b", "--mask", "causal &"], "the name of a mask is missing"),
        (["steps", "a b", "--mask", "~~casual"], "Did you mean causal?"),
        (["steps", "a b", "--word", "zzz", "--json"], "zzz is not a token of the text"),
        (["steps", "a b", "--word", ""], "--word is empty"),
        (["steps", "a b", "--tiles", "0", "--json"], "--tiles is 0"),
        (["steps", "a b", "--heads", "5000"], "--heads is 5000: give 1 … 1024"),
        (["steps", "a\udcff"], "not UTF-8, at character 2"),
        (["steps", "a", "--memory", "\udcff"], "not UTF-8"),
        (["steps", "--file", ""], "--file is empty"),
        (["steps", "--file", "x.json", "--seed", "0"], "--seed draws vectors for a text"),
        (["steps", "--file", "x.json", "--dim", "3"], "--dim goes with a text"),
        (["masks", "causal", "--n", "0"], "--n is 0"),
        (["masks", "windw:3"], "Did you mean window?"),
        (["masks", "window:a"], "is not a valid mask: write window:LEFT[,RIGHT]"),
        (["masks", "window:99999999999999999999"], "is not a valid mask"),
        (["masks", ""], "the name of a mask is missing; there are causal"),
        ([""], 'unknown verb ""'),
        (["-x", "--lang", "en"], "-x needs a verb"),
        (["--lang", "fr", "steps", "a"], "unknown language fr: give --lang en or zh"),
        (["--lang=fr"], "unknown language fr"),
        (["--lang="], 'unknown language ""'),
        (["--lang"], "--lang needs a language after it: en or zh"),
        (["steps", "a", "--lang"], "--lang needs a language after it"),
        (["steps", "a", "--json=1"], "ignored explicit argument"),
        (["stpes"], "unknown verb stpes: did you mean steps?"),
        (["tokenize"], "unknown verb tokenize; the verbs are learn, steps, "),
        (["steps", "I", "love", "Beijing"], "put a text of several words in quotes"),
        (["generate", "hi", "--temp", "0"], "did you mean --temperature?"),
        (["masks", "--nn", "3"], "did you mean --n?"),
        (
            ["models", "gett", "x"],
            "qkv models 'gett' is not one of list, get, show, why, verify, remove; did you mean 'get'?",
        ),
        (["learn", "wacth"], "did you mean 'watch'?"),
        (["learn", "softmx"], "did you mean softmax?"),
        (["steps", "a", "-q"], "qkv steps has no option -q"),
        (["steps", "a", "--model"], "--model: expected one argument"),
        (["--fast"], "--fast needs a verb"),
        (["steps", "a", "--fast"], "qkv steps has no option --fast; see"),
        (["steps", "a", "--dim", "x"], "--dim is 'x': give a whole number"),
        (["masks"], "required: mask"),
        (["steps", "a", "--lang", "fr"], "unknown language fr"),
    ],
    ids=lambda p: " ".join(p) if isinstance(p, list) else "",
)
def test_mistakes_get_a_sentence_and_exit_2(call, arguments, phrase):
    code, out, err = call(*arguments)
    assert code == 2 and phrase in err and "Traceback" not in err and out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "lm", "--steps", "abc"],
        ["studio", "--port", "22a"],
        ["masks", "causal", "--n", "x"],
        ["see", "a", "--layer"],
        ["train", "--lr", "fast"],
        ["masks"],
        ["steps", "a", "--json=1"],
        ["see", "a", "--words", "--tokens"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_argparse_errors_are_a_single_sentence(call, arguments, lang):
    code, out, err = call(*arguments, "--lang", lang)
    assert (code, out) == (2, "") and len(err.splitlines()) == 1 and err.startswith(("qkv: ", "qkv：")), err
    assert lang == "en" or (re.search("[一-鿿]", err) and "see  qkv" not in err)


def test_numbers_are_parsed_by_a_shared_function():
    """No option has a type of its own for numbers, whose errors would be argparse's."""
    for verb in VERBS:
        command = importlib.import_module(f"qkv.commands.{verb}")
        parser = cli._parser(verb, command.EXAMPLES)
        command.arguments(parser)
        assert {action.type for action in parser._actions} <= {None, int, float, Path}


def options_of(verb):
    """The long options of a verb, or of each of lab's experiments, as (words before it, option)."""
    command = importlib.import_module(f"qkv.commands.{verb}")
    parser = cli._parser(verb, command.EXAMPLES)
    command.arguments(parser)
    begins = [[verb, name] for name in EXPERIMENTS] if verb == "lab" else [[verb, "a"]]
    return [(begin, option) for begin in begins for option in parser._options(begin) if len(option) > 5]


@pytest.mark.parametrize(
    ("begin", "option"), [each for verb in VERBS for each in options_of(verb)], ids=lambda p: str(p).strip("[]")
)
def test_a_misspelt_option_gets_a_suggestion(call, begin, option):
    wrong = option[:3] + option[4] + option[3] + option[5:]
    if wrong == option:
        wrong = option[:4] + option[5:]
    for lang, phrase in (
        ("en", f"has no option {wrong}: did you mean --"),
        ("zh", f"没有 {wrong} 这个选项：是不是想写 --"),
    ):
        code, out, err = call(*begin, wrong, "1", "--lang", lang)
        assert (code, out) == (2, "") and phrase in err and option in err, err


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (["steps"], "请给一段文本或 --file"),
        (["steps", "a", "--word", "b"], "文本中没有词元 b"),
        (["steps", "a", "--heads", "3", "--dim", "4"], "不能平分给 3 个头"),
        (["steps", "a", "--heads", "0"], "--heads 是 0：应为 1, 2, 3, …"),
        (["steps", "a\udcff"], "不是 UTF-8"),
        (["steps", "a", "--json=3"], "参数 --json：不带值，去掉 '3'"),
        (["steps", "a", "--fast"], "qkv steps 没有 --fast 这个选项；请看"),
        (["models", "gett"], "qkv models 不能是 'gett'：可选 list、get、show、why、verify、remove。是不是想写 get？"),
        (["steps", "a", "--dim"], "参数 --dim：后面要有一个值"),
        (["steps", "a", "--dim", "x"], "--dim 是 'x'：应为整数"),
        (["masks", "casual"], "是不是想写 causal？"),
        (["masks", "zzz"], "没有叫 zzz 的掩码；可用的有 causal、full、window:LEFT[,RIGHT]、"),
        (["masks", "window:a"], "请写成 window:LEFT[,RIGHT]"),
        (["masks", "causal", "--n", "0"], "--n 是 0：应为 1 … 4096"),
        (["masks"], "缺少参数：mask"),
        (["stpes"], "没有 stpes 这个命令：是不是想写 steps？"),
        (["分词"], "没有 分词 这个命令；可用的有 learn、steps、masks、"),
        (["-x"], "-x 前面要有命令"),
    ],
    ids=lambda p: " ".join(p) if isinstance(p, list) else "",
)
def test_mistakes_speak_chinese_too(call, arguments, phrase):
    code, _, err = call(*arguments, "--lang", "zh")
    assert code == 2 and phrase in err and "只有英文" not in err


def test_the_number_of_axes_is_reported_in_chinese(call, tmp_path):
    (tmp_path / "m.json").write_text('{"x": [1]}')
    assert "应有 2 或 3 个" in call("steps", "--file", tmp_path / "m.json", "--lang", "zh")[2]


@pytest.mark.parametrize("error", [ZeroDivisionError, ValueError, TypeError, KeyError], ids=lambda e: e.__name__)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_bug_of_qkv_is_a_single_sentence_and_exit_1(lang, error, call, monkeypatch):
    def fail(options):
        raise error("float division by zero\nand more")

    monkeypatch.setattr("qkv.commands.steps.run", fail)
    code, out, err = call("steps", "a", "--lang", lang)
    assert (code, out) == (1, "") and len(err.splitlines()) == 1 and "Traceback" not in err
    assert {"en": "a bug in qkv", "zh": "qkv 自身的错误"}[lang] in err
    assert f"{error.__name__}: " in err and "float division by zero" in err and "QKV_DEBUG=1" in err
    monkeypatch.setenv("QKV_DEBUG", "1")
    with pytest.raises(error):
        main(["steps", "a"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("lang", "phrase"), [("en", "qkv: the disk is full\n"), ("zh", "qkv：磁盘已满\n")])
def test_a_full_disk_is_reported(lang, phrase):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "qkv", "steps", "a b", "--lang", lang]
        env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}  # so that it shows at the end only
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, env=env)
    assert done.returncode == 2 and done.stderr.decode() == phrase


def test_a_file_that_may_not_be_read(call, tmp_path, monkeypatch):
    def refuse(path, **_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    (tmp_path / "m.json").write_text("{}")
    monkeypatch.setattr(Path, "read_text", refuse)  # permissions themselves would not stop an administrator
    code, _, err = call("steps", "--file", tmp_path / "m.json", "--lang", "zh")
    assert code == 2 and err == f"qkv：没有权限：{tmp_path / 'm.json'}\n"


def test_masks_may_be_negated_many_times(call):
    code, out, _ = call("masks", "~" * 5001 + "causal", "--n", 2)
    assert code == 0 and "~causal()" in out and "· ■\n· ·" in out


def test_masks_draws_each_and_all(call):
    code, out, _ = call("masks", "causal", "window:1", "--n", 3)
    assert code == 0 and out.count("■ · ·") == 3 and "causal() & window(1, 0)" in out
    content = json.loads(call("masks", "padding:1,2", "--n", 2, "--json")[1])
    assert content[0]["allowed"] == [[[True, False]] * 2, [[True, True]] * 2]


LONG = " ".join(f"word{i}" for i in range(80))  # as JSON far more than the 64 kB that a pipe holds


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_reader_that_leaves_is_no_error():
    pipe = f"{shlex.quote(sys.executable)} -m qkv steps '{LONG}' --json | head -c 100; echo \" ${{PIPESTATUS[0]}}\""
    done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and len(done.stdout) == 103 and done.stdout.endswith(" 0\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for other processes")
@pytest.mark.parametrize(("lang", "phrase"), [("en", "stopped"), ("zh", "已停止")])
def test_ctrl_c_stops_it_without_a_traceback(lang, phrase):
    command = [sys.executable, "-m", "qkv", "steps", LONG, "--json", "--lang", lang]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1)  # it has begun, and waits, since nobody reads on
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.decode().split() == [phrase]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for other processes")
def test_ctrl_c_stops_it_while_it_computes():
    patch = "import numpy as np; np.random.default_rng = (lambda f: lambda s: (print('begun', flush=True), f(s))[1])(np.random.default_rng)"
    text = " ".join(f"w{i}" for i in range(4000))
    script = f"{patch}; from qkv.cli import main; raise SystemExit(main(['steps', {text!r}, '--dim', '2048']))"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.decode().split() == ["stopped"]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_run_is_announced_in_the_language_of_the_system():
    for lang, phrase in (("zh_CN.UTF-8", "看看 SmolLM2 的内部"), ("en_US.UTF-8", "looking into SmolLM2")):
        env = {k: v for k, v in os.environ.items() if k not in ("LC_ALL", "LC_MESSAGES", "QKV_LANG")} | {"LANG": lang}
        done = subprocess.run(["make", "-n", "run"], cwd=ROOT, env=env, capture_output=True, encoding="utf-8")
        assert done.returncode == 0 and phrase in done.stdout


@pytest.mark.parametrize(
    ("lang", "phrase"), [("zh_CN.UTF-8", "下载 torch 2.6.0（30 MB）"), ("C", "downloading torch 2.6.0 (30 MB)")]
)
def test_set_up_speaks_the_language_of_the_system(lang, phrase):
    script = "import setup; print(setup.short('  Downloading torch-2.6.0-cp311-none-any.whl (30.1 MB)'))"
    env = {k: v for k, v in os.environ.items() if k not in ("LC_ALL", "LC_MESSAGES", "QKV_LANG")}
    env |= {"LANG": lang, "PYTHONPATH": str(ROOT / "tools"), "PYTHONUTF8": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, encoding="utf-8")
    assert done.stdout.strip() == phrase, done.stderr


@pytest.mark.parametrize(
    ("lang", "why"), [("en", "as bytes most characters would take three"), ("zh", "按字节的话，多数字符要占三个")]
)
def test_a_small_chinese_text_is_cut_into_characters(call, tmp_path, lang, why):
    text = "".join(random.Random(0).choices([chr(0x4E00 + i) for i in range(2500)], k=20_000))
    (tmp_path / "poems.txt").write_text(text, encoding="utf-8")
    command = ["data", "prepare", str(tmp_path / "poems.txt"), "--out", str(tmp_path / "tokens"), "--lang", lang]
    code, out, _ = call(*command)
    assert code == 0 and why in out
    assert why not in call(*command, "--tokenizer", "bytes")[1]
