"""Run folders that were damaged, or made by a stranger: a sentence, nothing lost, and nothing outside is read."""

import json
import shutil

import pytest

from qkv.cli import main
from qkv.disk.run_folder import check, newest
from qkv.formats import model_files
from qkv.i18n import Problem
from qkv.train.run import resume, start

SMALL = dict(steps=4, n_layer=1, width=16, n_head=2, context=8, batch=2, eval_every=2, eval_batches=1)


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "book.txt").write_text("the cat sat on the mat\n" * 60)
    start("lm", out=folder / "lm", source=str(folder / "book.txt"), changes=SMALL).train()
    return folder / "lm"


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "lm")


def change(file, values):
    record = json.loads(file.read_text())
    for path, value in values.items():
        holder, *keys = record, *path.split("/")
        for key in keys[:-1]:
            holder = holder[key]
        holder[keys[-1]] = value
    file.write_text(json.dumps(record))


DEEP = "[" * 100_000 + "]" * 100_000
STATES = {
    "a list": "[1, 2]",
    "a number": "7",
    "nothing": "",
    "deep": DEEP,
    "no step": {"step": None},
    "a word": {"step": "four"},
    "below 0": {"step": -1},
    "half": {"step": 1.5},
    "beyond": {"step": 10**30},
    "best a list": {"best_step": [1]},
    "loss a word": {"best_loss": "low"},
    "seconds": {"seconds": "long"},
    "endless": {"seconds": float("inf")},
    "more seconds than a float holds": {"seconds": 10**400},
    "a loss that no float holds": {"best_loss": 10**400},
    "a name that no file has": {"files": {"x" * 1_000_000: {"bytes": 1, "sha256": ""}}},
    "files a list": {"files": ["model.safetensors"]},
    "no sizes": {"files/model.safetensors": "abc"},
    "sizes as words": {"files/model.safetensors": {"bytes": "9", "sha256": "ab"}},
    "hash a list": {"files/model.safetensors": {"bytes": 9, "sha256": [1]}},
    "a device": {"files//dev/zero": None, "files": {"/dev/zero": {"bytes": 1, "sha256": ""}}},
    "outside": {"files": {"../../config.json": {"bytes": 1, "sha256": ""}}},
    "up": {"files": {"..": {"bytes": 1, "sha256": ""}}},
}


@pytest.mark.parametrize("harm", STATES)
def test_a_damaged_state_is_refused(harm, run):
    for checkpoint in (run / "checkpoints").iterdir():
        damage = STATES[harm]
        if isinstance(damage, str):
            (checkpoint / "state.json").write_text(damage)
        else:
            change(checkpoint / "state.json", {key: value for key, value in damage.items() if "//" not in key})
        problem = check(checkpoint)
        assert problem is not None and "state.json" in str(problem) and problem.say("zh")
    assert newest(run / "checkpoints") is None
    for opened in (model_files.load, resume):
        with pytest.raises(Problem, match=r"state\.json"):
            opened(run)


def test_a_file_that_has_no_end_is_not_read(run):
    """A link to a device, a pipe nobody writes to: regular files alone are hashed."""
    for checkpoint in (run / "checkpoints").iterdir():
        (checkpoint / "model.safetensors").unlink()
        (checkpoint / "model.safetensors").symlink_to("/dev/zero")
        assert "not a regular file" in str(check(checkpoint))
    with pytest.raises(Problem, match="not a regular file"):
        model_files.load(run)
    (run / "config.json").unlink()
    (run / "config.json").symlink_to("/dev/zero")
    for opened in (model_files.load, resume):
        with pytest.raises(Problem):
            opened(run)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_layer", 2**31), ("n_layer", 40), ("width", 2**40), ("vocab", 2**60), ("hidden", 10**12), ("n_head", 2**33)],
)
def test_a_config_that_its_weights_belie_is_refused_before_anything_is_built(name, value, run):
    change(run / "config.json", {f"model/{name}": value, "model/head_width": 8})
    for opened in (model_files.load, resume):
        with pytest.raises(Problem, match=rf"config\.json.*{name} is {value}"):
            opened(run)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", []),
        ("model/width", {"a": 1}),
        ("model/self", 1),
        ("model/norm_eps", 10**400),
        ("train", 5),
        ("data", None),
        ("data", {"kind": "/etc"}),
        ("task", ["lm"]),
        ("watch", 7),
        ("why", "because"),
        ("why", [["why.cpu", {}]]),
        ("why", [["no such", {}]]),
    ],
)
def test_an_impossible_record_is_refused(key, value, run):
    change(run / "config.json", {key: value})
    with pytest.raises(Problem) as refusal:
        resume(run)
    assert refusal.value.say("zh")


@pytest.mark.parametrize(
    "change_to",
    [
        {"shards": [{}]},
        {"shards": [{"file": "/dev/zero", "split": "train", "tokens": 9}]},
        {"shards": "all"},
        {"dtype": "O"},
        {"dtype": 5},
        {"complete": "yes"},
    ],
)
def test_a_damaged_index_of_tokens_is_refused(change_to, run):
    change(run / "tokens" / "index.json", change_to)
    with pytest.raises(Problem, match="is not an index"):
        resume(run)


def files(folder):
    return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_a_run_whose_checkpoints_are_all_damaged_is_not_trained_over(run, capsys):
    for checkpoint in (run / "checkpoints").iterdir():
        file = checkpoint / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    before = files(run)
    assert main(["train", "--resume", str(run)]) == 2
    message = capsys.readouterr().err
    assert "none is whole" in message and "its content changed" in message and f"qkv train --resume {run}" in message
    assert files(run) == before, "nothing is written"
    assert main(["train", "--resume", str(run), "--lang", "zh"]) == 2 and "没有改动任何文件" in capsys.readouterr().err
    (run / "checkpoints").rename(run / "old")  # as the sentence says
    assert main(["train", "--resume", str(run)]) == 0
    assert newest(run / "checkpoints").name == "000004"


def test_training_resumes_from_the_newest_undamaged_checkpoint(run, capsys):
    last = max((run / "checkpoints").iterdir())
    (last / "state.json").write_text("[]")
    assert main(["train", "--resume", str(run)]) == 0
    output = capsys.readouterr().out
    assert "step 2" in output and "state.json" in output
