"""Error messages of the studio: names without paths or error classes, in both languages; the terminal has the rest."""

from pathlib import Path

import pytest

from qkv.i18n import LANGUAGES, Problem, quoted
from qkv.studio.worker import problem_frame
from qkv.tracing.views.traces import Trace
from tests.studio.unpacking import unpack


def sentences(error):
    ((fields, _),) = unpack(problem_frame(error))
    assert fields["kind"] == "problem" and set(fields["say"]) == set(LANGUAGES)
    return fields["say"]


@pytest.mark.parametrize("folder", ["runs", "my runs", "我的 模型"])
def test_an_unreadable_file_is_named_without_its_path(tmp_path, capfd, folder):
    file = tmp_path / folder / "broken.safetensors"
    file.parent.mkdir()
    file.write_bytes(b"\x08\0\0\0\0\0\0\0nonsense")
    with pytest.raises(Problem) as raised:
        Trace.load(file)
    for text in sentences(raised.value).values():
        assert (
            "broken.safetensors" in text and folder not in text and "/" not in text and "SafetensorError" not in text
        ), text
    assert str(file) in capfd.readouterr().err


def test_messages_of_libraries_lose_paths_and_classes(capfd):
    wrong = Problem("{file} is no run: {error}", file=Path("/a/b c/lm"), error=quoted(KeyError("n_embd")))
    for text in sentences(wrong).values():
        assert "lm" in text and "n_embd" in text and "KeyError" not in text and "b c" not in text
    assert "/a/b c/lm" in capfd.readouterr().err


def test_a_bug_shows_its_traceback_only_in_the_terminal(capfd):
    for text in sentences(RuntimeError("expected 3 at /usr/lib/torch/x.py")).values():
        assert "qkv" in text and "RuntimeError" not in text and "/usr" not in text and "x.py" not in text
    printed = capfd.readouterr().err
    assert "RuntimeError: expected 3 at /usr/lib/torch/x.py" in printed


def test_a_sentence_without_a_path_stays_as_it_is(capfd):
    wrong = Problem("{found}: give 1/2 or https://example.org/a/b", found="runs/lm@20")
    assert sentences(wrong)["en"] == "runs/lm@20: give 1/2 or https://example.org/a/b"
    assert capfd.readouterr().err == ""
