"""Layers that keep a state: right ones in many styles get no finding, each known mistake gets its name."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from qkv.doctor import check
from qkv.doctor.mistakes import CATALOGUE
from qkv.doctor.mistakes.states import StateMistake
from qkv.doctor.numbers.states import StateMixing, close, recovered, table
from qkv.doctor.source.file import parse, read
from qkv.i18n import LANGUAGES

FOLDER = Path(__file__).parent / "corpora" / "mixers"
RIGHT, WRONG = (sorted((FOLDER / kind).glob("*.py")) for kind in ("right", "wrong"))
# What is right and can't be judged whole: what was not looked at is named, or it is said that nothing was.
PARTLY = {"retnet_norm_gate.py", "jamie.py", "returns_state.py"}
UNKNOWN = {"per_head_list.py"}  # heads without a batch


@cache
def judged(file):
    """The reports on what the file itself offers."""
    source = read(file)
    names = source.candidates()
    assert names, "nothing in it looks like such a layer"
    return [check(source.load(name), source=source, name=name) for name in names]


@pytest.mark.parametrize("file", RIGHT, ids=lambda file: file.stem)
def test_what_is_right_gets_no_finding(file):
    for report in judged(file):
        assert not report.findings, report
        expected = "partly" if file.name in PARTLY else "unknown" if file.name in UNKNOWN else "right"
        assert report.verdict == expected, report


@pytest.mark.parametrize("file", WRONG, ids=lambda file: file.stem)
def test_a_mistake_gets_its_name(file):
    [report] = judged(file)
    assert [one.id for one in report.findings] == [file.stem[:2]], report
    for lang in LANGUAGES:
        assert "{" not in report.findings[0].evidence.say(lang)


def test_most_mistakes_get_a_line_and_a_patch_that_cures():
    found = [report.findings[0] for file in WRONG for report in judged(file)]
    assert all(one.line for one in found)
    assert sum(bool(one.diff) for one in found) >= 20  # of 30; each was put in, loaded and compared


LOOP = """import torch
def retention_recurrent(q, k, v, gamma):
    S, ys = torch.zeros(q.shape[0], q.shape[-1], v.shape[-1], dtype=q.dtype), []
    for t in range(q.shape[1]):
        S = {write}
        ys.append((q[:, t, None] @ S)[:, 0])
    return torch.stack(ys, 1)
"""


def asked(text, name):
    source = parse(text, "mine.py")
    return check(source.load(name), source=source, name=name)


def test_the_patch_is_the_right_layer():
    outer = "k[:, t, :, None] * v[:, t, None]"
    [found] = asked(LOOP.format(write=f"gamma * (S + {outer})"), "retention_recurrent").findings
    assert found.id == "L4" and found.line == 5 and f"+ S = gamma * S + {outer}" in found.diff


@pytest.mark.parametrize("called", ["retention_recurrent", "mystery"])
def test_names_are_not_needed(called):
    """A decay that is used makes it such a layer, whatever it is called."""
    outer = "k[:, t, :, None] * v[:, t, None]"
    right = LOOP.format(write=f"gamma * S + {outer}").replace("retention_recurrent", called)
    wrong = LOOP.format(write=f"gamma * (S + {outer})").replace("retention_recurrent", called)
    assert asked(right, called).verdict == "right" and [one.id for one in asked(wrong, called).findings] == ["L4"]


def test_attention_without_its_softmax_is_still_that():
    """Plain sums of values are linear attention only where somebody says so."""
    text = "import torch\ndef {name}(q, k, v):\n    return torch.tril(q @ k.mT) @ v\n"
    assert asked(text.format(name="linear_attention"), "linear_attention").verdict == "right"
    assert "X6" in [one.id for one in asked(text.format(name="attention"), "attention").findings]


def test_what_is_none_of_these_is_not_called_right():
    text = "import torch\ndef retention(q, k, v, gamma):\n    return (q @ k.mT).tril().sin() @ v * gamma\n"
    report = asked(text, "retention")
    assert report.verdict == "unknown" and not report.findings
    assert all(re.search("retention|保留机制", report.problem.say(lang)) for lang in LANGUAGES)


def drawn(rule, seed=0):
    random = np.random.default_rng(seed)
    q, k, v = (random.standard_normal((2, 3, 6, width)) * 0.6 for width in (5, 5, 6))
    gamma, beta = random.uniform(0.5, 0.95, (2, 2, 3, 6))
    return StateMixing(q, k, v, np.asarray(gamma), np.asarray(beta), rule)


@pytest.mark.parametrize("rule", ["add", "delta"])
def test_decays_and_shares_are_read_off_the_output(rule):
    given = drawn(rule)
    found = next(one for one in recovered(given.q, given.k, given.v, table(given) @ given.v) if one.rule == rule)
    assert close(found.beta, given.beta, 1e-6) and close(found.gamma[..., 1:], given.gamma[..., 1:], 1e-6)


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("rule", ["add", "delta"])
def test_no_mistake_is_the_right_layer(rule, steady):
    """Nor would any be named where nothing is wrong."""
    given = drawn(rule)
    gamma = np.full_like(given.gamma, 0.8) if steady else given.gamma
    given = StateMixing(given.q, given.k, given.v, gamma, given.beta, rule, chunk=2)
    right, seen = table(given), 0
    for mistake in CATALOGUE.values():
        for made, _said in mistake.tables(given) if issubclass(mistake, StateMistake) else ():
            seen += 1
            assert not close(made @ given.v if made.shape == right.shape else made, right @ given.v, 1e-6), mistake.id
    assert seen >= 6
