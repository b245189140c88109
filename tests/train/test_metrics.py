"""Metrics of a run that goes on: a damaged line costs that line alone, and is named."""

import json
import warnings

import pytest

from qkv.disk.run_folder import read_metrics
from qkv.i18n import Notice
from qkv.train.loop import trim_metrics

GOOD = [json.dumps({"step": step, "loss": 1 / step}) for step in range(1, 8)]
DAMAGED = [
    "5",
    "[]",
    "null",
    '{"step": "x"}',
    '{"step": true}',
    '{"step": 1.5}',
    "{}",
    '{"step": 3',
    "",
    '"step"',
    "\0",
]
DAMAGED += ["[" * 100_000, "9" * 10_000, '{"step": ' + "9" * 10_000 + "}"]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "metrics.jsonl"


@pytest.mark.parametrize("line", [*DAMAGED, b'\xff{"step": 4}'], ids=lambda line: repr(line)[:20])
def test_a_damaged_line_is_skipped_and_named(line, file):
    raw = line if isinstance(line, bytes) else line.encode()
    file.write_bytes("\n".join(GOOD[:3]).encode() + b"\n" + raw + b"\n" + "\n".join(GOOD[3:]).encode() + b"\n")
    with pytest.warns(Notice, match=r"metrics\.jsonl had damaged lines, which were left out: 4$"):
        assert read_metrics(file) == list(enumerate(GOOD, 1))


def test_many_damaged_lines_are_named_once(file):
    file.write_text("5\n" * 12 + GOOD[0] + "\n")
    with pytest.warns(Notice) as caught:
        assert read_metrics(file) == [(1, GOOD[0])]
    assert [str(each.message).rpartition(": ")[2] for each in caught] == ["1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …"]


def test_a_resumed_run_keeps_every_good_line_up_to_its_step(file):
    file.write_text("\n".join([GOOD[0], "null", *GOOD[1:]]) + '\n{"step": 8, "lo')
    with pytest.warns(Notice, match="left out: 2$"):
        trim_metrics(file, 5)
    assert file.read_text().splitlines() == GOOD[:5]
    with warnings.catch_warnings():  # it is gone, so it is not named again; nor is the end that a kill cut off
        warnings.simplefilter("error")
        file.write_text(file.read_text() + '{"step": 6, "lo')
        trim_metrics(file, 5)
    assert file.read_text().splitlines() == GOOD[:5]


def test_metrics_that_need_no_change_are_not_written(file, monkeypatch):
    """So that a full disk does not stop a run before its first step."""
    file.write_text("".join(line + "\n" for line in GOOD))
    monkeypatch.setattr("qkv.train.loop.atomic_write", None)
    trim_metrics(file, 7)
    trim_metrics(file.with_name("none.jsonl"), 7)
