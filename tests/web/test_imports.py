"""Scripts import existing files, and in one direction: core ← map, steps ← page, studio."""

import re
from collections import Counter

import pytest

from tests.draw.pages import WEB

ALLOWED = {
    "core": {"core"},
    "map": {"core", "map"},
    "steps": {"core", "steps"},
    "page": {"core", "map", "steps", "page"},
    "studio": {"core", "map", "steps", "studio"},
}
IMPORTED = re.compile(r'(?:from |import |import\()"([^"]+)"')  # of types too: `@import { View } from "…"`
FILES = sorted(WEB.rglob("*.js"))


@pytest.mark.parametrize("folder", ALLOWED)
def test_imports_are_files_and_acyclic_between_folders(folder):
    imports = [
        (file, name) for file in FILES if file.parent == WEB / folder for name in IMPORTED.findall(file.read_text())
    ]
    assert folder == "core" or imports
    for file, name in imports:
        target = (file.parent / name).resolve()
        assert name.startswith("./" if target.parent == file.parent else "../") and target in FILES, (file, name)
        assert target.parent.name in ALLOWED[folder], (file, name)


def test_file_names_are_unique():
    assert {file.parent for file in FILES} == {WEB / folder for folder in ALLOWED}
    assert [name for name, times in Counter(file.name for file in FILES).items() if times > 1] == []
