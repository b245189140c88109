"""What the studio says went wrong: names, no paths, no classes of errors, in both languages; the terminal has the rest."""

from pathlib import Path

import pytest

from qkv.i18n import LANGUAGES, Problem, quoted
from qkv.studio.worker import told_of
from qkv.tracing.views.traces import Trace
from tests.studio.unpacking import unpack


def said(error):
    ((told, _),) = unpack(told_of(error))
    assert told["kind"] == "problem" and set(told["say"]) == set(LANGUAGES)
    return told["say"]


@pytest.mark.parametrize("folder", ["runs", "my runs", "我的 模型"])
def test_a_file_that_cannot_be_read_is_said_by_its_name(tmp_path, capfd, folder):
    file = tmp_path / folder / "broken.safetensors"
    file.parent.mkdir()
    file.write_bytes(b"\x08\0\0\0\0\0\0\0nonsense")
    with pytest.raises(Problem) as raised:
        Trace.load(file)
    for text in said(raised.value).values():
        assert (
            "broken.safetensors" in text and folder not in text and "/" not in text and "SafetensorError" not in text
        ), text
    assert str(file) in capfd.readouterr().err


def test_what_another_library_says_keeps_its_words_alone(capfd):
    wrong = Problem("{file} is no run: {error}", file=Path("/a/b c/lm"), error=quoted(KeyError("n_embd")))
    for text in said(wrong).values():
        assert "lm" in text and "n_embd" in text and "KeyError" not in text and "b c" not in text
    assert "/a/b c/lm" in capfd.readouterr().err


def test_a_bug_is_said_without_its_insides_which_the_terminal_shows(capfd):
    for text in said(RuntimeError("expected 3 at /usr/lib/torch/x.py")).values():
        assert "qkv" in text and "RuntimeError" not in text and "/usr" not in text and "x.py" not in text
    shown = capfd.readouterr().err
    assert "RuntimeError: expected 3 at /usr/lib/torch/x.py" in shown


def test_a_sentence_without_a_path_stays_as_it_is(capfd):
    wrong = Problem("{found}: give 1/2 or https://example.org/a/b", found="runs/lm@20")
    assert said(wrong)["en"] == "runs/lm@20: give 1/2 or https://example.org/a/b"
    assert capfd.readouterr().err == ""
