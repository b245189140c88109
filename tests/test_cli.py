"""The command line as a person meets it: what it prints, in both languages, and what it says to mistakes."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from qkv import steps
from qkv.cli import VERBS, main
from qkv.words import SENTENCES


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

    def ask(*arguments):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as stop:
            code = stop.code
        out, err = capfd.readouterr()
        return code, out, err

    return ask


def test_bare_qkv_lists_the_verbs_with_an_example_each():
    code, out, _ = run()
    assert code == 0
    for verb, (example, english, _) in VERBS.items():
        assert verb in out and example in out and english in out
    assert run("--help")[1] == out


def test_help_is_quick_because_nothing_heavy_is_imported():
    script = "import sys; sys.argv = ['qkv', '--help']; from qkv.cli import main; main(); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "numpy", "rich", "transformers"} & set(out.split())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_in_both_languages(verb):
    _, english, _ = run(verb, "--help")
    code, chinese, _ = run(verb, "--help", "--lang", "zh")
    assert code == 0 and "usage:" in english and "examples:" in english
    assert "用法：" in chinese and "例子：" in chinese and "选项" in chinese
    assert "usage" not in chinese and "show this help" not in chinese


@pytest.mark.parametrize("verb", VERBS)
def test_the_example_of_every_verb_runs(verb, call):
    import shlex

    code, out, err = call(*shlex.split(VERBS[verb][0])[1:])
    assert code == 0 and out and not err


@pytest.mark.parametrize(
    "setting", [{"LANG": "zh_CN.UTF-8"}, {"LC_ALL": "zh_TW.UTF-8", "LANG": "en_US"}, {"QKV_LANG": "zh"}], ids=str
)
def test_language_from_the_environment(setting):
    assert "一步一步" in run(**setting)[1]
    assert "step by step" in run("--lang", "en", **setting)[1]


def test_chinese_survives_an_ascii_terminal():
    code, out, _ = run("steps", "我 爱 北京", "--lang", "zh", PYTHONIOENCODING="ascii")
    assert code == 0 and "北京" in out


def test_steps_prints_what_the_library_computes(call):
    code, out, _ = call("steps", "我 爱 北京", "--mask", "causal", "--json")
    made = json.loads(out)
    assert code == 0 and made["queries"] == ["我", "爱", "北京"]
    again = np.array(made["weights"])
    np.testing.assert_allclose(again.sum(-1), 1)
    assert (again[np.triu_indices(3, 1)] == 0).all()
    np.testing.assert_allclose(again @ np.array(made["v"]), made["output"])
    q, k = np.array(made["q"]), np.array(made["k"])
    np.testing.assert_allclose(q @ k.T / 2, made["scaled"])
    _, text, _ = call("steps", "我 爱 北京", "--mask", "causal")
    for value in again[2]:
        assert f"{value:.3f}" in text


def test_steps_says_that_its_vectors_are_drawn_and_repeats_itself(call):
    first = call("steps", "a b", "--seed", 3)
    assert first == call("steps", "a b", "--seed", 3) != call("steps", "a b", "--seed", 4)
    assert "drawn at random from seed 3" in first[1]


def test_the_same_word_has_the_same_vector_until_positions_come(call):
    same = json.loads(call("steps", "a b a", "--json")[1])
    assert same["q"][0] == same["q"][2]
    placed = json.loads(call("steps", "a b a", "--position", "sinusoidal", "--json")[1])
    assert placed["q"][0] != placed["q"][2]


def test_cross_heads_padding_no_scale(call):
    made = json.loads(
        call("steps", "a b", "--memory", "x y [PAD]", "--mask", "padding", "--heads", 2, "--no-scale", "--json")[1]
    )
    assert made["shapes"]["weights"] == [2, 2, 3] and made["scale"] == 1.0 and made["keys"] == ["x", "y", "[PAD]"]
    assert np.array(made["weights"])[..., 2].tolist() == [[0, 0], [0, 0]]
    assert made["shapes"]["output"] == [2, 8]


def test_padding_combines_like_any_mask(call):
    for text, hidden in (("causal|padding", 2), ("~padding", 6), ("padding & causal", 4)):
        masked = json.loads(call("steps", "a b [PAD]", "--mask", text, "--json")[1])["masked"]
        assert sum(value is None for row in masked for value in row) == hidden, text


def test_cross_attention_says_where_keys_come_from(call):
    assert "k = memory·W_k" in call("steps", "I love", "--memory", "我 爱 北京")[1]
    assert "Three views of the same words" in call("steps", "I love")[1]


def test_word_and_tiles(call):
    code, out, _ = call("steps", "今天天气真好，我想出去玩", "--word", "玩", "--tiles", 4)
    assert code == 0 and "The row of 玩" in out and "4 keys at a time" in out
    assert call("steps", "a b a", "--word", "a")[1].count("The row of a") == 2


@pytest.mark.parametrize("kind", ["json", "npz"])
def test_own_matrices(kind, call, tmp_path):
    rng = np.random.default_rng(0)
    tables = {name: rng.normal(size=(3, 4)) for name in ("q", "k", "v")}
    file = tmp_path / f"m.{kind}"
    if kind == "json":
        file.write_text(json.dumps({k: v.tolist() for k, v in tables.items()} | {"names": ["我", "b", "c"]}))
    else:
        np.savez(file, **tables)
    made = json.loads(call("steps", "--file", file, "--json")[1])
    scores = tables["q"] @ tables["k"].T / 2
    np.testing.assert_allclose(made["scaled"], scores)
    assert call("steps", "--file", file, "--tiles", 2, "--word", "我" if kind == "json" else "q0")[0] == 0


def test_own_word_vectors(call, tmp_path):
    x, w = np.random.default_rng(0).normal(size=(2, 3, 4)), np.eye(4)
    file = tmp_path / "m.npz"
    np.savez(file, x=x, w_q=w, w_k=w, w_v=2 * w, w_o=w, mask=np.tri(3) == 1)
    made = json.loads(call("steps", "--file", file, "--heads", 2, "--json")[1])
    expected = steps(x, w, w, 2 * w, w, n_head=2, mask=np.tri(3) == 1)
    np.testing.assert_allclose(made["output"], expected.output)


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
        "data.csv": b"1,2",
    }
    for name, content in files.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
    return files


def test_a_bad_file_gets_a_sentence_and_exit_2(call, tmp_path):
    for name in broken(tmp_path):
        for lang in ("en", "zh"):
            code, out, err = call("steps", "--file", tmp_path / name, "--lang", lang)
            assert (code, out) == (2, ""), name
            assert err.startswith("qkv") and "Traceback" not in err and len(err.strip().splitlines()) == 1, (name, err)


def test_a_pickle_is_not_opened(call, tmp_path):
    np.save(tmp_path / "m.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "m.npz", q=np.array([{"a": 1}], dtype=object))
    code, _, err = call("steps", "--file", tmp_path / "m.npz")
    assert code == 2 and "can't be read" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["steps"], "give a text or --file"),
        (["steps", "a", "--file", "b.json"], "one of the two"),
        (["steps", "  "], "the text is empty"),
        (["steps", "a b", "--word", "c"], "c is not in the text; there are: a, b"),
        (["steps", "a b", "--heads", "0"], "--heads is 0"),
        (["steps", "a b", "--heads", "3", "--dim", "4"], "doesn't divide into 3 heads"),
        (["steps", "a b", "--head", "1"], "--head is 1: give 0 … 0"),
        (["steps", "a b", "--dim", "0"], "--dim is 0"),
        (["steps", "a b", "--seed", "-1"], "--seed is -1"),
        (["steps", "a b", "--tiles", "0"], "--tiles is 0"),
        (["steps", "a b", "--mask", "casual"], "Did you mean causal?"),
        (["steps", "a b", "--mask", "padding:1,2"], "given for 2 items"),
        (["steps", "--file", "x.json", "--dim", "3"], "--dim goes with a text"),
        (["masks", "causal", "--n", "0"], "--n is 0"),
        (["masks", "windw:3"], "Did you mean window?"),
        (["masks", "window:a"], "doesn't read as a mask"),
        (["step"], "there is no verb step"),
        (["--fast"], "--fast needs a verb"),
        (["steps", "a", "--fast"], "unrecognized arguments: --fast"),
        (["steps", "a", "--dim", "x"], "invalid int value"),
        (["masks"], "required: mask"),
        (["steps", "a", "--lang", "fr"], "invalid choice"),
    ],
    ids=lambda p: " ".join(p) if isinstance(p, list) else "",
)
def test_mistakes_get_a_sentence_and_exit_2(call, arguments, says):
    code, out, err = call(*arguments)
    assert code == 2 and says in err and "Traceback" not in err and out == ""


def test_mistakes_speak_chinese_too(call):
    for arguments in (
        ["steps"],
        ["steps", "a", "--word", "b"],
        ["masks", "casual"],
        ["masks", "causal", "--n", "0"],
        ["step"],
    ):
        code, _, err = call(*arguments, "--lang", "zh")
        assert code == 2 and any("\u4e00" <= c <= "\u9fff" for c in err), arguments
    code, _, err = run("steps", "a", "--fast", "--lang", "zh")
    assert code == 2 and "不认识的参数：--fast" in err


def test_masks_draws_each_and_all(call):
    code, out, _ = call("masks", "causal", "window:1", "--n", 3)
    assert code == 0 and out.count("■ · ·") == 3 and "causal() & window(1, 0)" in out
    made = json.loads(call("masks", "padding:1,2", "--n", 2, "--json")[1])
    assert made[0]["allowed"] == [[[True, False]] * 2, [[True, True]] * 2]


def test_a_reader_that_leaves_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m qkv steps 'a b c' | head -1", shell=True, capture_output=True, text=True
    )
    assert done.stderr == "" and done.stdout


@pytest.mark.parametrize("key", SENTENCES)
def test_every_sentence_exists_in_both_languages_with_the_same_blanks(key):
    import string

    english, chinese = SENTENCES[key]
    blanks = [sorted({name for _, name, *_ in string.Formatter().parse(text) if name}) for text in (english, chinese)]
    assert blanks[0] == blanks[1]
    assert english and any("\u3000" <= c <= "\u9fff" or "\uff00" <= c <= "\uffef" for c in chinese)
