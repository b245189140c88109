"""What holds for every file: asked bare or by name, on a quiet machine or a busy one, and after its patches are put in."""

import contextlib
import subprocess
import sys

import pytest

from qkv.doctor import doctor, isolated_check
from qkv.doctor.source import file as source

from .test_strangers import CASES, in_the_twentieth, score

pytestmark = pytest.mark.usefixtures("warm")
FILES = sorted({case["file"] for case in CASES.values()})
FIRST = {case["file"]: name for name, case in CASES.items()}
DAILY = [file if in_the_twentieth(FIRST[file]) else pytest.param(file, marks=pytest.mark.slow) for file in FILES]
FAULTY = [
    name if in_the_twentieth(name) and not index % 2 else pytest.param(name, marks=pytest.mark.slow)
    for index, name in enumerate(name for name, case in CASES.items() if "id" in case)
]
BUSY = ["first/annotated_mha.py", "second/trimmed_cache.py", "right/bert_self_attention.py", "right/t5_bias_sdpa.py"]


def said(report):
    """What a person would call the same answer."""
    unseen = [one.id for one in report.unseen]
    return report.verdict, [(one.id, one.line, one.diff) for one in report.findings], unseen


def checked(file, name):
    return doctor.check(file.load(name), source=file, name=name)


@contextlib.contextmanager
def busy():
    """Beside four processes that compute without end."""
    others = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(4)]
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.wait()


@pytest.mark.parametrize("file", [BUSY[0], *(pytest.param(file, marks=pytest.mark.slow) for file in BUSY[1:])])
def test_beside_four_busy_processes_the_answer_is_the_same(file):
    quiet = isolated_check.examine(score.HERE / file)
    with busy():
        beside = isolated_check.examine(score.HERE / file)
    assert [one.to_dict() for one in beside] == [one.to_dict() for one in quiet]


def test_what_has_a_mistake_is_found_in_its_file_without_being_named():
    names = {name: case for name, case in CASES.items() if "id" in case}
    assert [n for n, c in names.items() if c["name"] not in source.read(score.HERE / c["file"]).candidates()] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", DAILY)
def test_a_bare_file_says_what_each_definition_by_name_does(path):
    """One after another in one process, as a bare file is checked; and each in a file that was just read."""
    file = source.read(score.HERE / path)
    names = file.candidates()
    if len(names) < 2:
        return
    bare = {name: said(checked(file, name)) for name in names}
    assert bare == {name: said(checked(source.read(score.HERE / path), name)) for name in names}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FAULTY)
def test_a_patch_mends_its_mistake_and_breaks_nothing(name, tmp_path):
    """As `--fix` puts it in: the finding is gone, and no definition of the file is wrong that was not."""
    case = CASES[name]
    file = source.read(score.HERE / case["file"])
    patched = [one for one in checked(file, case["name"]).findings if one.edits]
    if not patched:
        return
    names = list(dict.fromkeys([case["name"], *file.candidates()]))
    wrong = {other: {one.id for one in checked(file, other).findings} for other in names}
    for finding in patched[:1]:
        now = file.edited(finding.edits)
        left = {other: {one.id for one in checked(now, other).findings} for other in names}
        assert finding.id not in left[case["name"]]
        assert [other for other in names if left[other] and not wrong[other]] == []
