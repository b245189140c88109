"""The corpus of faulty files covers the catalogue, and says of each file what really stands in it."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.doctor.cases_faulty import FAULTY, HOSTILE, LINES, PAIRS, REMARKS, SINGLE

HERE = Path(__file__).parent / "corpora"
CATALOGUE = """
S1 S2 S3 S4 S6 S7 S8 X1 X2 X3 X5 X6 X7 X8 M1 M2 M3 M5 M6 M7 M8 M9 M11 M12 M14 M15 M16 M17 M18 M19 M20 M21
H1 H2 H3 H4 H6 H7 H8 H9 H10 P1 P2 P3 P4 C1 C2 C3 C4 R1 R3 R4 R5 R6 R7 K1 K2 K3 K4 K5 N1 N2 T1 T2 T3 T5 T6 T8 E1
""".split()
COMMONEST = "S1 S2 S3 S4 S6 X1 X2 X3 X7 M1 M2 M3 M7 M8 M9 M11 M12 M14 H1 H2 H4 H8 P1 P4 T1 T2 T3".split()


def names(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def test_every_mistake_of_the_catalogue_has_a_file():
    assert {case.expects[0] for case in SINGLE + REMARKS} == set(CATALOGUE)


def test_the_commonest_are_written_three_ways():
    count = Counter(case.expects[0] for case in SINGLE)
    assert [id for id in COMMONEST if count[id] < 3] == []


def test_ten_pairs_of_different_mistakes():
    assert len({frozenset(case.expects) for case in PAIRS}) >= 10
    assert all(len(set(case.expects)) == 2 for case in PAIRS)


@pytest.mark.parametrize("folder, listed", [("faulty", FAULTY + REMARKS), ("hostile", HOSTILE)])
def test_no_file_is_forgotten_and_every_name_stands_in_its_file(folder, listed):
    pairs = [(case[0], case[1]) if isinstance(case, tuple) else (case.file, case.name) for case in listed]
    assert sorted(file for file, _ in pairs) == sorted(path.name for path in (HERE / folder).glob("*.py"))
    assert [pair for pair in pairs if pair[1] not in names(HERE / folder / pair[0])] == []


def test_the_lines_at_fault_stand_in_the_files():
    assert set(LINES) == {case.file for case in SINGLE}
    for file, lines in LINES.items():
        text = [line.strip() for line in (HERE / "faulty" / file).read_text().splitlines()]
        assert set(lines) <= set(text), file
