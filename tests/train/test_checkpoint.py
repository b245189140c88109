"""A checkpoint is there wholly or not at all, and comes back bit for bit."""

import errno
import json
import os

import pytest
import torch

from qkv import Config, Transformer
from qkv.disk.run_folder import best, check, checkpoints, newest, numbered
from qkv.train.checkpoint import load_checkpoint, save_checkpoint
from qkv.train.optim import make_optimizers
from qkv.train.run import _newest_checkpoint
from qkv.train.settings import Settings

CONFIG = Config(vocab=11, width=16, n_layer=2, n_head=2, position="relative")


def trained(optimizer="muon", config=CONFIG):
    model = Transformer(config)
    optimizers = make_optimizers(model, Settings(optimizer=optimizer))
    for _ in range(2):
        model(torch.randint(11, (2, 5))).square().mean().backward()
        for o in optimizers:
            o.step()
    return model, optimizers


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_a_checkpoint_restores_everything_bit_for_bit(optimizer, tmp_path):
    model, optimizers = trained(optimizer)
    checkpoint = save_checkpoint(tmp_path, 7, model, optimizers, {"best_step": None})
    other, others = trained(optimizer)
    assert load_checkpoint(checkpoint, other, others)["step"] == 7
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    for a, b in zip(optimizers, others, strict=True):
        for p, q in zip(a.state.values(), b.state.values(), strict=True):
            assert p.keys() == q.keys() and all(torch.equal(p[k], q[k]) and p[k].dtype == q[k].dtype for k in p)


def test_keeps_the_last_two_and_the_best(tmp_path):
    model, optimizers = trained()
    for step in (1, 2, 3, 4, 5):
        save_checkpoint(tmp_path, step, model, optimizers, {"best_step": 2})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000002", "000004", "000005"]


FOREIGN = ["000006 copy", "notes", "12.bak", "7", "0000007", "٠٠٠٠٠٧", "000003.part", "9" * 60]


def test_checkpoints_are_sorted_by_number_and_other_names_ignored(tmp_path):
    """As text, 1000000 comes before 999998."""
    model, optimizers = trained()
    folder = tmp_path / "checkpoints"
    for name in FOREIGN:
        (folder / name).mkdir(parents=True)
    (folder / "000005").write_text("a file of somebody's")
    for step in (999_998, 999_999, 1_000_000, 1_000_001):
        checkpoint = save_checkpoint(folder, step, model, optimizers, {"best_step": 999_998})
        assert newest(folder) == checkpoint
    assert [p.name for p in checkpoints(folder)] == ["999998", "1000000", "1000001"]
    assert {p.name for p in folder.iterdir()} == {*FOREIGN, "000005", "999998", "1000000", "1000001"}
    assert best(tmp_path).name == "999998"
    (folder / "1000001" / "state.json").unlink()
    whole, damaged = _newest_checkpoint(tmp_path)
    assert whole.name == "1000000" and [p.name for p in damaged] == ["1000001"]


def test_watched_steps_are_sorted_by_number_and_other_names_ignored(tmp_path):
    for name in ("1000000", "999999", "000200", *FOREIGN):
        (tmp_path / f"{name}.safetensors").touch()
    (tmp_path / "000100").touch()
    assert [(step, file.name) for step, file in numbered(tmp_path, ".safetensors").items()] == [
        (200, "000200.safetensors"),
        (999_999, "999999.safetensors"),
        (1_000_000, "1000000.safetensors"),
    ]


@pytest.mark.parametrize("harm", ["cut", "flip", "no state", "broken state", "missing", "newer"])
def test_a_damaged_checkpoint_is_skipped(harm, tmp_path):
    model, optimizers = trained()
    good = save_checkpoint(tmp_path, 1, model, optimizers, {})
    bad = save_checkpoint(tmp_path, 2, model, optimizers, {})
    file, state = bad / "optimizer.safetensors", bad / "state.json"
    content = file.read_bytes()
    match harm:
        case "cut":
            file.write_bytes(content[: len(content) // 2])
        case "flip":
            file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "no state":
            state.unlink()
        case "broken state":
            state.write_text(state.read_text()[:50])
        case "missing":
            file.unlink()
        case "newer":
            state.write_text(json.dumps({**json.loads(state.read_text()), "format": "qkv checkpoint 99"}))
    assert check(good) is None and check(bad)
    assert newest(tmp_path) == good
    with pytest.raises(ValueError, match="000002"):
        load_checkpoint(bad, model, optimizers)


def test_a_half_written_checkpoint_is_ignored(tmp_path):
    model, optimizers = trained()
    good = save_checkpoint(tmp_path, 1, model, optimizers, {})
    half = tmp_path / ".000002.part"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    assert newest(tmp_path) == good
    save_checkpoint(tmp_path, 2, model, optimizers, {})
    assert not half.exists() and newest(tmp_path).name == "000002"


def test_a_full_disk_keeps_the_last_good_checkpoint_and_is_reported(tmp_path, monkeypatch):
    model, optimizers = trained()
    save_checkpoint(tmp_path, 1, model, optimizers, {})

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match=r"the disk is full.*the last good checkpoint is .*000001"):
        save_checkpoint(tmp_path, 2, model, optimizers, {})
    assert [p.name for p in tmp_path.iterdir()] == ["000001"]


def test_another_config_is_refused(tmp_path):
    model, optimizers = trained()
    checkpoint = save_checkpoint(tmp_path, 1, model, optimizers, {})
    with pytest.raises(ValueError, match="of another config"):
        load_checkpoint(checkpoint, Transformer(CONFIG.replace(width=32)))
    with pytest.raises(ValueError, match="of another config"):
        load_checkpoint(checkpoint, Transformer(CONFIG.replace(n_layer=3)))
