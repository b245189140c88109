"""Files of earlier versions load and give the same numbers.

The folders of tests/fixtures are never written again (fixtures/README.md names the commits). When a format changes, a
new folder is added, and both are read.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from qkv.formats.model_files import load
from qkv.lessons.exercise_folder import Folder
from qkv.lessons.grade import grade
from qkv.tracing.study.ablation import importance
from qkv.tracing.views.traces import Trace
from qkv.train import run as runs
from tests.fixtures.make import RUNS, SENTENCE, STOPPED, logits

VERSIONS = sorted(path for path in (Path(__file__).parents[1] / "fixtures").iterdir() if (path / "lm").is_dir())


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def old(request):
    return request.param


@pytest.fixture
def expected_tensors(old):
    return load_file(old / "expected.safetensors")


@pytest.fixture
def expected_values(old):
    return json.loads((old / "expected.json").read_text(encoding="utf-8"))


def assert_equal(now, then):
    """Assert that the numbers are equal, up to rounding on other CPUs."""
    torch.testing.assert_close(torch.as_tensor(now), then, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("name", RUNS)
def test_runs_give_the_same_logits(name, old, expected_tensors, expected_values):
    model, tokenizer = load(old / name)
    assert tokenizer.encode(SENTENCE) == expected_values["ids"][name]
    assert_equal(logits(model, tokenizer), expected_tensors[f"logits.{name}"])


@pytest.mark.parametrize("name", RUNS)
def test_interrupted_runs_resume_with_the_same_losses(name, old, expected_values, tmp_path):
    """The run of two FSDP processes resumes in one process."""
    folder = shutil.copytree(old / name, tmp_path / name)
    run = runs.resume(folder)
    assert run.state["step"] == STOPPED and run.settings.steps == len(expected_values["losses"][name])
    run.train()
    lines = [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines == pytest.approx(expected_values["losses"][name], rel=1e-5)


def test_traces_have_the_same_maps(old, expected_tensors):
    opened = Trace.load(old / "trace.safetensors")
    maps = {name: expected for name, expected in expected_tensors.items() if name.startswith("map.")}
    assert {name.split(".")[1] for name in maps} == set(opened.parts) == {"encoder", "decoder", "cross"}
    for name, expected in maps.items():
        _, part, head = name.split(".")
        assert_equal(opened.map(0, int(head), part=part), expected)


@pytest.mark.parametrize("name", RUNS)
def test_watched_texts_are_traces(name, old):
    opened = Trace.load(old / name / "watch" / f"{STOPPED:06d}.safetensors")
    assert opened.more["step"] == STOPPED
    for part in opened.parts:
        rows = torch.from_numpy(opened.map(0, 0, part=part)).sum(-1)
        assert_equal(rows, torch.ones_like(rows))


def test_exports_give_the_same_logits(old, expected_tensors):
    assert_equal(logits(*load(old / "export")), expected_tensors["logits.lm"])


def test_importance_resumes_from_its_file(old, tmp_path):
    file = shutil.copy(old / "importance.jsonl", tmp_path)
    header, *rows = (json.loads(line) for line in Path(file).read_text().splitlines())
    changed = [{**row, "change": row["change"] + 1} for row in rows]  # a recomputed row would differ
    Path(file).write_text("".join(json.dumps(line) + "\n" for line in [header, *changed]))
    resumed = importance(*_text_and_model(old), resume=file)
    assert {(row.part, row.layer, row.head): row.change for row in resumed} == {
        (row["part"], row["layer"], row["head"]): row["change"] for row in changed
    }


def _text_and_model(old):
    model, tokenizer = load(old / "lm")
    return model, SENTENCE, tokenizer


def test_exercise_folders_keep_progress(old, expected_values, tmp_path):
    folder = Folder(shutil.copytree(old / "learn", tmp_path / "learn"))
    assert folder.damaged_file is None
    assert {"solved": folder.solved, "hints": folder.hints, "current": folder.current} == expected_values["learn"]
    mine = folder.file("scaling").read_text(encoding="utf-8")
    assert mine.endswith("# mine\n") and not folder.copy("scaling") and folder.file("scaling").read_text() == mine
    assert grade("scores", folder.file("scores").read_text(encoding="utf-8"), "02_scores.py").verdict == "right"
