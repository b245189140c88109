"""The shards of a checkpoint that many processes wrote: only those that state.json lists, each whole, or a sentence."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from qkv.disk.run_folder import check
from qkv.i18n import Problem
from qkv.train.checkpoint import load_shards
from qkv.train.run import resume

OLD = Path(__file__).parents[1] / "fixtures" / "2026-11" / "fsdp"
CHECKPOINT = "checkpoints/000004"


@pytest.fixture
def run(tmp_path):
    return shutil.copytree(OLD, tmp_path / "fsdp")


def shards(run):
    return sorted((run / CHECKPOINT / "shards").glob("shard-*"))


def list_again(run):
    """Let state.json agree with the files, as after a bad copy that was hashed anew."""
    state = json.loads((run / CHECKPOINT / "state.json").read_text())
    for name in [name for name in state["files"] if name.startswith("shards/")]:
        file = run / CHECKPOINT / name
        state["files"].pop(name)
        if file.exists():
            content = file.read_bytes()
            state["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (run / CHECKPOINT / "state.json").write_text(json.dumps(state))


def edit(file, change):
    """Rewrite a shard: `change(tensors, table of where each slice begins)`."""
    with safe_open(file, framework="pt") as opened:
        tensors, metadata = {name: opened.get_tensor(name) for name in opened.keys()}, opened.metadata()
    table = json.loads(metadata["DCP_SHARDING_INFO"])
    change(tensors, table)
    save_file(tensors, file, {**metadata, "DCP_SHARDING_INFO": json.dumps(table)})


def momenta(run):
    return [value for optimizer in run.optimizers for state in optimizer.state.values() for value in state.values()]


@pytest.mark.parametrize("content", ["weights", "garbage"])
def test_files_that_are_not_listed_are_not_read(content, run):
    whole = resume(run)
    other = run / CHECKPOINT / "shards" / "zz.safetensors"
    if content == "garbage":
        other.write_bytes(b"garbage")
    else:
        with safe_open(shards(run)[0], framework="pt") as opened:
            save_file({name: torch.full_like(opened.get_tensor(name), 7.0) for name in opened.keys()}, other)
    (run / CHECKPOINT / "zz.safetensors").write_bytes(b"garbage")
    again = resume(run)
    assert all(map(torch.equal, whole.model.parameters(), again.model.parameters()))
    assert len(momenta(again)) == len(momenta(whole)) > 0 and all(map(torch.equal, momenta(whole), momenta(again)))


def test_a_folder_of_shards_that_are_not_listed_changes_nothing(tmp_path):
    run = shutil.copytree(OLD.parent / "lm", tmp_path / "lm")
    checkpoint = next((run / "checkpoints").iterdir())
    (checkpoint / "shards").mkdir()
    (checkpoint / "shards" / "zz.safetensors").write_bytes(b"garbage")
    assert check(checkpoint) is None
    (checkpoint / "optimizer.safetensors").unlink()
    assert "optimizer.safetensors is missing" in str(check(checkpoint))
    shutil.copy(OLD.parent / "lm" / checkpoint.relative_to(run) / "optimizer.safetensors", checkpoint)
    assert resume(run).state["step"] == 4


def cut(tensors, table):
    tensors["head.weight"] = tensors["head.weight"][:-1].contiguous()


HARMS = {
    "a shard less": lambda run: shards(run)[1].unlink(),
    "a shard twice": lambda run: shutil.copy(*shards(run)),
    "not safetensors": lambda run: shards(run)[0].write_bytes(b"x" * 99),
    "empty": lambda run: shards(run)[0].write_bytes(b""),
    "no weight": lambda run: edit(shards(run)[0], lambda tensors, table: tensors.pop("head.weight")),
    "no momentum": lambda run: edit(shards(run)[1], lambda tensors, table: tensors.pop("head.weight:step")),
    "too few rows": lambda run: edit(shards(run)[0], cut),
    "not in the table": lambda run: edit(shards(run)[0], lambda tensors, table: table.pop("head.weight")),
    "table of words": lambda run: edit(shards(run)[0], lambda tensors, table: table.update({"head.weight": "x"})),
    "begins before": lambda run: edit(
        shards(run)[1], lambda tensors, table: table["head.weight"].update(saved_offsets=[-1, 0])
    ),
    "begins far": lambda run: edit(
        shards(run)[1], lambda tensors, table: table["head.weight"].update(saved_offsets=[1 << 70, 0])
    ),
    "begins nowhere": lambda run: edit(
        shards(run)[1], lambda tensors, table: table["head.weight"].update(saved_offsets=[14])
    ),
    "another weight": lambda run: edit(
        shards(run)[0], lambda tensors, table: (tensors.update(x=torch.ones(2)), table.update(x={"saved_offsets": [0]}))
    ),
    "another momentum": lambda run: edit(
        shards(run)[0],
        lambda tensors, table: (
            tensors.update({"head.weight:momentum": tensors["head.weight"].clone()}),
            table.update({"head.weight:momentum": {"saved_offsets": [0, 0]}}),
        ),
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_damaged_shards_are_named_even_if_their_hash_is_right(harm, run):
    opened = resume(run)
    HARMS[harm](run)
    if harm != "a shard less":
        assert check(run / CHECKPOINT) is not None, "by their hash"
    list_again(run)
    with pytest.raises(Problem) as caught:
        load_shards(run / CHECKPOINT, opened.model, opened.optimizers, together=False)
    assert "000004" in str(caught.value) and caught.value.say("zh")
    with pytest.raises(Problem):
        resume(run)


def test_momenta_that_are_not_whole_are_refused(tmp_path):
    """One file of momenta, of a single process: without one of them the optimizer would stop at its next step."""
    run = shutil.copytree(OLD.parent / "lm", tmp_path / "lm")
    checkpoint = next((run / "checkpoints").iterdir())
    file = checkpoint / "optimizer.safetensors"
    with safe_open(file, framework="pt") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}
    del tensors[next(name for name in tensors if name.endswith(":exp_avg"))]
    save_file(tensors, file)
    state = json.loads((checkpoint / "state.json").read_text())
    content = file.read_bytes()
    state["files"][file.name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (checkpoint / "state.json").write_text(json.dumps(state))
    with pytest.raises(Problem, match="another optimizer"):
        resume(run)
