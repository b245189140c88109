"""The score on public code (tools/wild.py): what it counts, and that its manifest can be read. The code itself is not here."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from qkv.doctor.mistakes import CATALOGUE
from tools import wild

from .test_command import RIGHT, WRONG

ROWS = wild.read_manifest(wild.MANIFEST)
HEADER = "repository\tcommit\tpath\tobject\ttruth\tkind\thalf\n"


def test_every_row_of_the_manifest_is_whole():
    assert len(set(ROWS)) == len(ROWS) > 200 and len({row.repository for row in ROWS}) > 100
    halves = {row.repository: {other.half for other in ROWS if other.repository == row.repository} for row in ROWS}
    assert all(len(half) == 1 for half in halves.values()), "a repository is in one half"
    for row in ROWS:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", row.repository) and re.fullmatch(r"[0-9a-f]{40}", row.commit), row
        assert row.path.endswith((".py", ".ipynb")) and row.object.isidentifier() and row.kind, row
        assert row.truth in ("right", "other") or re.fullmatch(r"[A-Z]\d+(\+[A-Z]\d+)*", row.truth), row
        assert row.half in ("work", "held"), row
    assert len({row.kind for row in ROWS}) >= 15


@pytest.fixture
def repositories(tmp_path):
    """A folder with one repository, whose newest commit is worse than the one that is asked about."""
    place = tmp_path / "copies" / "ann+attention"
    place.mkdir(parents=True)
    git = ["git", "-C", str(place), "-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    (place / "sub").mkdir()
    (place / "sub" / "mine.py").write_text(RIGHT + WRONG)
    (place / "notes.txt").write_text("not Python")
    for number in range(2):
        subprocess.run([*git[:3], "init", "-q"] if not number else [*git[:3], "status", "-s"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
        (place / "sub" / "mine.py").write_text("import nothing_like_it\n")
    first = subprocess.run([*git, "rev-list", "--max-parents=0", "HEAD"], check=True, capture_output=True, text=True)
    return place.parent, first.stdout.strip()


def test_truths_and_verdicts_are_compared(repositories, tmp_path):
    folder, commit = repositories
    truths = [("attend", "S2"), ("blow_up_attention", "S4+S1")]
    lines = [f"ann/attention\t{commit}\tsub/mine.py\t{name}\t{truth}\tcourse\twork\n" for name, truth in truths]
    (tmp_path / "list.tsv").write_text(
        HEADER + "".join(lines) + f"bob/absent\t{commit}\ta.py\tA\tright\tcourse\twork\n"
    )
    command = [sys.executable, str(Path(wild.__file__)), str(folder), "--list", str(tmp_path / "list.tsv")]
    done = subprocess.run([*command, "--json", str(tmp_path / "out.json")], capture_output=True, text=True)
    assert done.returncode == 0 and "left out: bob/absent" in done.stderr, done.stderr
    answers = json.loads((tmp_path / "out.json").read_text())
    outcomes = Counter(answer["outcome"] for answer in answers)
    assert outcomes == {"missed, right": 2, "named": 2}, answers
    assert "by object: 2 objects, 0 right and 2 wrong" in done.stdout
    assert re.search(r'missed as plain "right" +1\n', done.stdout)
    assert not list(folder.rglob("*.pyc"))


def test_what_the_doctor_cant_run_is_not_counted_as_right():
    row = wild.Row("a/b", "", "a.py", "A", "right", "course", "work")
    assert wild.outcome(row, "unknown", []) == "not run" and wild.outcome(row, "wrong", ["S2"]) == "false alarm"
    assert wild.outcome(row, "right", []) == "right" and wild.outcome(row, "partly", []) == "partly"
    other = wild.Row("a/b", "", "a.py", "A", "other", "JAX", "work")
    assert wild.outcome(other, "unknown", []) == "refused" and wild.outcome(other, "wrong", ["S2"]) == "false alarm"


def test_mistakes_are_put_into_right_code():
    from tools import inject

    made = {mistake.name: text for mistake, text in inject.injections(RIGHT, "attend")}
    assert len(inject.MISTAKES) >= 30 and {"no division by the root", "softmax over the queries", "filled with 0"} <= {
        *made
    }
    assert "/ q.shape" not in made["no division by the root"] and "masked_fill(mask == 0, 0.0)" in made["filled with 0"]
    for text in made.values():
        compile(text, "injected.py", "exec")
    ids = {id_ for mistake in inject.MISTAKES for id_ in mistake.ids}
    assert ids <= set(CATALOGUE)
