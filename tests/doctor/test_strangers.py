"""Code of people who never saw the doctor: what it says is the answer, but for a list that can only become shorter.

A twentieth of the files is looked at in every run, by a hash of their names; `make test-check` takes all.
"""

import importlib.util
import json
from pathlib import Path

import pytest

from tests.doctor.case import in_the_twentieth

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("score_check", ROOT / "tools" / "score_check.py")
score = importlib.util.module_from_spec(spec)
spec.loader.exec_module(score)
CASES = score.cases()
MISSED = json.loads((score.HERE / "missed.json").read_text(encoding="utf-8"))


def test_the_list_names_what_is_there():
    assert set(MISSED) <= set(CASES)
    assert "alarm" not in MISSED.values(), "nothing right is called wrong"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [name if in_the_twentieth(CASES[name]["file"]) else pytest.param(name, marks=pytest.mark.slow) for name in CASES],
)
def test_it_is_judged_rightly_or_known_not_to_be(name):
    answer = score.check_case(CASES[name])
    assert answer["wrong"] == MISSED.get(name, ""), (answer, CASES[name], "tools/score_check.py --write")
