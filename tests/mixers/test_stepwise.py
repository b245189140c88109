"""What `qkv steps --mixer` prints: three forms that are each computed in their own way and give the same."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.cli import main
from qkv.i18n import Problem
from qkv.mixers import reference
from qkv.mixers.stepwise import KINDS, mixing, random_mixing


def steps_of(kind, n, d, p, seed, chunk):
    draw = np.random.default_rng(seed)
    q, k, v = (draw.standard_normal((n, width)) for width in (d, d, p))
    write = draw.uniform(0, 1, n) if kind == "delta" else None
    if kind == "delta":
        k /= np.linalg.norm(k, axis=1, keepdims=True)
    return mixing(kind, q, k, v, draw.uniform(0.05, 1, n), write=write, scale=0.7, chunk=chunk)


@given(
    st.sampled_from(KINDS),
    st.integers(1, 13),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 99),
    st.integers(1, 6),
)
def test_the_three_forms_agree_with_each_other_and_with_the_reference(kind, n, d, p, seed, chunk):
    steps = steps_of(kind, n, d, p, seed, chunk)
    log = np.log(steps.decay)
    if kind == "delta":
        whole = reference.delta(steps.q, steps.k, steps.v, log, steps.write, 0.7)
    else:
        whole = reference.linear(steps.q, steps.k, steps.v, log, 0.7)
    assert steps.difference < 1e-12
    assert np.abs(steps.stepped - whole.output).max() < 1e-12 and np.abs(steps.states[-1] - whole.state).max() < 1e-12
    assert np.abs(steps.terms(n - 1).sum(0) - steps.output[-1]).max() < 1e-12
    table = steps.left * steps.scores if kind != "delta" else (steps.left * steps.scores) @ steps.corrected
    assert np.abs(table - steps.weights).max() < 1e-12  # what is shown makes what is shown after it
    assert [chunk.begin for chunk in steps.chunks[1:]] == [chunk.end for chunk in steps.chunks[:-1]]


def test_a_later_word_changes_nothing_before_it():
    x = np.random.default_rng(3).standard_normal((5, 4))
    changed = x.copy()
    changed[-1] += 1
    for kind in KINDS:
        steps, other = random_mixing(kind, x, 0), random_mixing(kind, changed, 0)
        assert (steps.output[:-1] == other.output[:-1]).all() and (steps.output[-1] != other.output[-1]).any()


def test_retention_fades_by_its_gamma():
    steps = random_mixing("retention", np.eye(3), 0, gamma=0.5)
    assert np.allclose(steps.left, [[1, 0, 0], [0.5, 1, 0], [0.25, 0.5, 1]], rtol=1e-15)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_command_line(kind, lang, capsys, tmp_path):
    picture = tmp_path / "steps.png"
    text = ["steps", "我 爱 北京", "--mixer", kind, "--word", "北京", "--lang", lang]
    assert main([*text, "--png", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert main([*text, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    for value in (
        plain["weights"][2][1],
        plain["output"][2][0],
        plain["states"][1][0][0],
        plain["chunkwise"][1]["before"][0][0],
    ):
        assert f"{abs(value):.3f}" in printed
    assert picture.stat().st_size > 10_000
    assert ("逐步" in printed) == (lang == "zh")


@pytest.mark.parametrize(
    "options, message",
    [
        (["--mixer", "mamba"], "did you mean 'mamba2'?"),
        (["--mixer", "delta", "--decay", "0.5"], "--decay doesn't go with --mixer delta"),
        (["--mixer", "retention", "--decay", "1.5"], "0 < γ ≤ 1"),
        (["--mixer", "retention", "--decay", "nan"], "0 < γ ≤ 1"),
        (["--mixer", "retention", "--memory", "a b"], "--memory doesn't go with --mixer retention"),
        (["--mixer", "retention", "--heads", "2"], "--heads doesn't go with --mixer retention"),
        (["--mixer", "retention", "--word", "你"], "你 is not a token of the text"),
        (["--decay", "0.5"], "--decay goes with --mixer retention"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(options, message, capsys):
    assert main(["steps", "我 爱 北京", *options, "--lang", "en"]) == 2
    assert message in capsys.readouterr().err


def test_a_decay_out_of_range_is_refused():
    with pytest.raises(Problem, match="above 0 and up to 1"):
        mixing("retention", [[1.0]], [[1.0]], [[1.0]], decay=[0.0])
