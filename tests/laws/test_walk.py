"""The number of files that a command goes through (tools/walk.py) may fall but not rise."""

import pytest

from tools.walk import WALKS

MOST_FILES = {"attend": 7, "see": 60, "train": 52, "keystroke": 51}


@pytest.mark.slow
@pytest.mark.parametrize("name", WALKS)
def test_a_walk_does_not_get_longer(name, tmp_path, monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")
    files, _, _ = WALKS[name]()
    assert 0 < len(files) <= MOST_FILES[name], sorted(files)
