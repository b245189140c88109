"""Every test starts from the same seed, with uninitialised memory full of NaN so that reading it shows."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("qkv", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("qkv")
collect_ignore_glob = ["fixtures/2*"]

TEXT = "".join(f"{i}: the cat sat on the mat, 我爱北京天安门 {i * i}\n" for i in range(300))
SMALL = "--set n_layer=1 --set width=32 --set n_head=2 --context 16 --batch 4 --steps 6 --eval-every 3".split()
SMALL += ["--set", "eval_batches=1"]


@pytest.fixture(autouse=True)
def repeatable():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)  # which also fills torch.empty with NaN
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A book, and a run of each kind that learned a little from it."""
    from qkv.cli import main

    folder = tmp_path_factory.mktemp("shelf")
    (folder / "book.txt").write_text(TEXT, encoding="utf-8")
    (folder / "pairs.tsv").write_text("".join(f"cat {i}\t猫 {i}\n" for i in range(40)), encoding="utf-8")
    for task, given in (("lm", "--text"), ("mlm", "--text"), ("translate", "--pairs")):
        source = folder / ("pairs.tsv" if task == "translate" else "book.txt")
        assert main(["train", task, given, str(source), "--out", str(folder / task), *SMALL]) == 0
    return folder
