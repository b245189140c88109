"""A line that says how far something is: it lives by itself, and makes room for what is printed."""

import io
import threading
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace

import pytest

from qkv.commands import train
from qkv.terminal import progress, screen, text_grid


class Terminal(io.StringIO):
    """A stream that says it is a terminal; `drawn` is set when a line was drawn on it."""

    def __init__(self):
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        if text.strip("\r\x1b[K"):
            self.drawn.set()
        return super().write(text)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(progress, "FIRST_DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    monkeypatch.setenv("QKV_LANG", "en")
    return Terminal()


def test_work_without_updates_still_shows_a_line(terminal):
    with redirect_stderr(terminal), progress.bar("opening"):
        assert terminal.drawn.wait(60)
    assert "opening … 0:0" in terminal.getvalue() and terminal.getvalue().endswith("\r\x1b[K"), "gone when it is done"


def test_updates_are_drawn(terminal):
    with redirect_stderr(terminal), progress.bar("measuring") as update:
        update(1, 4)
        terminal.drawn.clear()
        assert terminal.drawn.wait(60)
    assert f"measuring {'━' * 7}{'┈' * 23}  25%" in terminal.getvalue() and "left" in terminal.getvalue()


def test_fetching_shows_megabytes(terminal):
    with redirect_stderr(terminal), progress.bar("fetching", in_bytes=True) as update:
        update(30_000_000, 120_000_000)
        terminal.drawn.clear()
        assert terminal.drawn.wait(60)
    assert " 25% 30/120 MB " in terminal.getvalue()


def test_a_line_is_never_wider_than_the_terminal(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    with redirect_stderr(terminal), progress.bar("下载 " + "很长的名字" * 20) as update:
        update(1, 2)
        assert terminal.drawn.wait(60)
    lines = [line for line in terminal.getvalue().split("\r\x1b[K") if line]
    assert lines and max(map(text_grid.width, lines)) < 30


def test_what_is_printed_meanwhile_stands_on_a_line_of_its_own(terminal, monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 60.0)  # drawn once
    with redirect_stderr(terminal), redirect_stdout(terminal), screen.escaped_output(), progress.bar("translating"):
        assert terminal.drawn.wait(60)
        print("hello")
        screen.draw("drawn")
    output = terminal.getvalue()
    assert "\r\x1b[Khello\ndrawn\n" in output and output.index("translating") < output.index("hello"), repr(output)


def test_nothing_is_drawn_where_no_terminal_is(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(progress, "FIRST_DELAY", 0.0)
    with redirect_stderr(stream), progress.bar("opening") as update:
        update(1, 2)
    assert stream.getvalue() == ""


def training(steps, state=None):
    """The line of a run in a log, where nobody watches."""
    model = SimpleNamespace(count=lambda: 10)
    line = train.LiveLine(SimpleNamespace(settings=SimpleNamespace(steps=steps), model=model, state=state), quiet=False)

    def step(number, seconds, **more):
        line.report({"step": number, "loss": 1.0, "tokens_per_second": 5.0, "seconds": seconds, **more})

    return step


def test_remaining_time_follows_the_time_per_step(monkeypatch, capsys):
    """Not by tokens: rows of sentences are shorter than the context, and of a resumed run its own steps count."""
    monkeypatch.setenv("QKV_LANG", "en")
    training(steps=12)(4, 20.0, val_loss=0.5)
    assert capsys.readouterr().out.rstrip().endswith("0:40 left")
    training(steps=12, state={"step": 4, "seconds": 1000.0})(6, 1006.0, val_loss=0.5)
    assert capsys.readouterr().out.rstrip().endswith("0:18 left")


def test_a_log_is_not_silent_for_long(monkeypatch, capsys):
    monkeypatch.setenv("QKV_LANG", "en")
    step = training(steps=12)
    step(1, 1.0)
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(train, "MAX_SILENCE", 0.0)
    step(2, 2.0)
    assert capsys.readouterr().out.startswith("2/12 · loss 1.000 · ")
