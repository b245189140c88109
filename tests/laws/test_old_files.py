"""What an earlier version wrote still opens, and gives the numbers it gave then.

The folders of tests/fixtures are kept as they were written (fixtures/README.md says by which commit) and never made
anew. A format that changes gets a folder of its own beside them, and is read in both forms.
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
from tests.fixtures.make import RUNS, SENTENCE, STOPPED, said

VERSIONS = sorted(place for place in (Path(__file__).parents[1] / "fixtures").iterdir() if (place / "lm").is_dir())


@pytest.fixture(params=VERSIONS, ids=lambda place: place.name)
def old(request):
    return request.param


@pytest.fixture
def kept(old):
    return load_file(old / "expected.safetensors")


@pytest.fixture
def told(old):
    return json.loads((old / "expected.json").read_text(encoding="utf-8"))


def equal(now, then):
    """The same numbers, up to how another CPU rounds its sums."""
    torch.testing.assert_close(torch.as_tensor(now), then, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_says_what_it_said(name, old, kept, told):
    model, tokenizer = load(old / name)
    assert tokenizer.encode(SENTENCE) == told["ids"][name]
    equal(said(model, tokenizer), kept[f"logits.{name}"])


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_was_stopped_goes_on_as_it_would_have(name, old, told, tmp_path):
    """The one that two processes trained with FSDP goes on alone."""
    folder = shutil.copytree(old / name, tmp_path / name)
    going = runs.resume(folder)
    assert going.state["step"] == STOPPED and going.settings.steps == len(told["losses"][name])
    going.train()
    lines = [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines == pytest.approx(told["losses"][name], rel=1e-5)


def test_a_trace_has_the_maps_it_had(old, kept):
    opened = Trace.load(old / "trace.safetensors")
    maps = {name: expected for name, expected in kept.items() if name.startswith("map.")}
    assert {name.split(".")[1] for name in maps} == set(opened.parts) == {"encoder", "decoder", "cross"}
    for name, expected in maps.items():
        _, part, head = name.split(".")
        equal(opened.map(0, int(head), part=part), expected)


@pytest.mark.parametrize("name", RUNS)
def test_what_was_watched_is_a_trace(name, old):
    opened = Trace.load(old / name / "watch" / f"{STOPPED:06d}.safetensors")
    assert opened.more["step"] == STOPPED
    for part in opened.parts:
        rows = torch.from_numpy(opened.map(0, 0, part=part)).sum(-1)
        equal(rows, torch.ones_like(rows))


def test_an_export_says_what_its_run_said(old, kept):
    equal(said(*load(old / "export")), kept["logits.lm"])


def test_importance_goes_on_from_its_file(old, tmp_path):
    file = shutil.copy(old / "importance.jsonl", tmp_path)
    header, *rows = (json.loads(line) for line in Path(file).read_text().splitlines())
    changed = [{**row, "change": row["change"] + 1} for row in rows]  # so that it shows if one is computed anew
    Path(file).write_text("".join(json.dumps(line) + "\n" for line in [header, *changed]))
    found = importance(*_text_and_model(old), resume=file)
    assert {(row.part, row.layer, row.head): row.change for row in found} == {
        (row["part"], row["layer"], row["head"]): row["change"] for row in changed
    }


def _text_and_model(old):
    model, tokenizer = load(old / "lm")
    return model, SENTENCE, tokenizer


def test_a_folder_of_exercises_remembers(old, told, tmp_path):
    folder = Folder(shutil.copytree(old / "learn", tmp_path / "learn"))
    assert folder.damaged_file is None
    assert {"solved": folder.solved, "hints": folder.hints, "current": folder.current} == told["learn"]
    mine = folder.file("scaling").read_text(encoding="utf-8")
    assert mine.endswith("# mine\n") and not folder.copy("scaling") and folder.file("scaling").read_text() == mine
    assert grade("scores", folder.file("scores").read_text(encoding="utf-8"), "02_scores.py").verdict == "right"
