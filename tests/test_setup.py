"""tools/setup.py, which `make` runs before everything else."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(("lang", "phrase"), [("en", "made by something else"), ("zh", "由别的工具")])
def test_a_foreign_environment_is_not_changed(tmp_path, lang, phrase):
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "setup.py", tmp_path / "tools")
    for name in ("requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    venv.create(tmp_path / ".venv", with_pip=False)
    mine = tmp_path / ".venv" / "bin" / "jupyter"
    mine.write_text("installed by hand")
    # Without an index, so that nothing is fetched should it go on.
    environment = {**os.environ, "QKV_LANG": lang, "PIP_NO_INDEX": "1"}
    command = [sys._base_executable, str(tmp_path / "tools" / "setup.py")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert ended.returncode == 2 and phrase in ended.stderr
    assert mine.read_text() == "installed by hand"
