"""The line of a mistake, proved by running the code again with one operation repaired."""

import textwrap
from pathlib import Path

import pytest

from qkv.doctor import doctor, replay
from qkv.doctor.mistakes import CATALOGUE
from qkv.doctor.mistakes.mistake import Mistake
from qkv.doctor.source import file as source
from tests.doctor.case import one_of_each
from tests.doctor.cases_faulty import LINES, SINGLE

FAULTY = Path(__file__).parent / "corpora" / "faulty"
REPAIRED = {id_ for id_, one in CATALOGUE.items() if one.repair is not Mistake.repair}
UNPROVED = {
    "x3_heads_inner.py",  # softmax of scores laid flat: their lengths are gone
    "h1_fused.py",  # keys turned by the same reshape
    "h8_function.py",  # q has all heads: the numbers fit before anything is shared
}


@pytest.fixture
def examined(monkeypatch):
    """The case behind a report."""
    kept = []
    concluded = doctor.concluded
    monkeypatch.setattr(doctor, "concluded", lambda case, *rest: (kept.append(case), concluded(case, *rest))[1])

    def examine(file, name, **options):
        doctor.check(file.load(name), source=file, name=name, **options)
        return kept[0]

    return examine


@pytest.mark.parametrize("case", one_of_each(case for case in SINGLE if case.expects[0] in REPAIRED), ids=str)
def test_the_repaired_operation_is_the_place(examined, case):
    file = source.read(FAULTY / case.file)
    found = examined(file, case.name, **case.options)
    line = replay.line_of(found, case.expects[0], str(file.path))
    if found.subject.framework == "numpy" or case.file in UNPROVED:
        assert line is None
    else:
        assert line is not None and file.line(line).strip() in LINES[case.file]


def test_names_are_not_looked_at(examined):
    """Nothing here is called scale, softmax or heads, and the root is taken in another place than it is used."""
    text = """
        import torch
        from torch import nn

        class Tu(nn.Module):
            def __init__(self, a, b):
                super().__init__()
                self.one, self.two, self.three, self.four = (nn.Linear(a, a) for _ in range(4))
                self.b, self.zu = b, a ** 0.5

            def forward(self, x):
                m, n, a = x.shape
                i, j, l = (f(x).view(m, n, self.b, -1).transpose(1, 2) for f in (self.one, self.two, self.three))
                w = i @ j.mT
                w = w / self.zu
                y = torch.exp(w - w.amax(-1, keepdim=True))
                return self.four((y / y.sum(-1, keepdim=True) @ l).transpose(1, 2).reshape(m, n, a))
    """
    file = source.parse(textwrap.dedent(text), "mine.py")
    line = replay.line_of(examined(file, "Tu"), "S3", "mine.py")
    assert file.line(line).strip() == "w = w / self.zu"
