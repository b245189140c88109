"""The learner's folder: copies of exercises, and progress in `qkv-learn.json`.

The file holds {"solved": {name: day}, "hints": {name: n}, "steps": {name: wrong step}, "current": name}. A file that the
learner changed is never overwritten.
"""

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..disk.atomic_files import write_file
from ..i18n import LANGUAGES
from . import lesson

FILE = "qkv-learn.json"
T = TypeVar("T")


class Folder:
    """A folder of exercises with the learner's progress."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.solved: dict[str, str] = {}
        self.hints: dict[str, int] = {}
        self.steps: dict[str, str] = {}  # by lesson: what was wrong when it was last graded
        self.selected: str | None = None
        self.damaged_file: Path | None = None  # new name of a qkv-learn.json that could not be read
        self._read()

    @classmethod
    def locate(cls, path: Path | None) -> "Folder":
        """Return the folder at a path; without one, the working directory if it has progress, else ./learn."""
        return cls(path or (Path() if _is_progress_file(Path(FILE)) else Path("learn")))

    @property
    def current(self) -> str | None:
        """The selected lesson if it isn't solved, else the first unsolved one; None when all are solved."""
        if self.selected is not None and self.selected not in self.solved:
            return self.selected
        return next((name for name in lesson.NAMES if name not in self.solved), None)

    def file(self, name: str) -> Path:
        """Return the path of an exercise, whether it exists or not."""
        return self.path / lesson.filename(name)

    def copy(self, name: str) -> bool:
        """Write an exercise unless the learner changed its file; True if written."""
        path, text = self.file(name), lesson.render(name)
        if path.exists() and (not self.is_unmodified(name) or path.read_bytes() == text.encode()):
            return False
        self.path.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
        return True

    def is_unmodified(self, name: str) -> bool:
        """True if the file is the exercise as copied, in either language."""
        text = self.file(name).read_bytes()
        return any(text == lesson.render(name, lang).encode() for lang in LANGUAGES)

    def reset(self, name: str) -> Path | None:
        """Write an exercise again and forget its progress. Return the backup of the old file, if it was changed."""
        path, backup = self.file(name), None
        if path.exists() and not self.is_unmodified(name):
            folder = self.path / "backups"
            folder.mkdir(exist_ok=True)
            backup = next(file for i in range(1, 10**6) if not (file := folder / f"{path.stem}.{i}.py").exists())
            path.replace(backup)
        try:
            self.copy(name)
        except BaseException:  # a full disk, Ctrl-C
            if backup is not None:
                backup.replace(path)
            raise
        self.solved.pop(name, None)
        for key in [key for key in self.hints if key.partition(":")[0] == name]:
            del self.hints[key]
        self.steps.pop(name, None)
        self.select(name)
        return backup

    def select(self, name: str) -> None:
        """Make a lesson the current one."""
        self.selected = name
        self.save()

    def mark_solved(self, name: str) -> None:
        """Record that a lesson is solved, with the day of the first time."""
        self.solved.setdefault(name, datetime.date.today().isoformat())
        self.selected = None if self.selected == name else self.selected
        self.save()

    def record_step(self, name: str, step: str) -> None:
        """Record the wrong step of a lesson; hints start with it."""
        self.steps[name] = step
        self.save()

    def next_hint(self, name: str, total: int) -> int:
        """Return the index of the next hint and count it; `total` after the last. Each step has its own count."""
        key = f"{name}:{self.steps[name]}" if self.steps.get(name) else name
        at = min(self.hints.get(key, 0), total)
        self.hints[key] = min(at + 1, total)
        self.save()
        return at

    def save(self) -> None:
        """Write qkv-learn.json."""
        self.path.mkdir(parents=True, exist_ok=True)
        fields = {"solved": self.solved, "hints": self.hints, "steps": self.steps, "current": self.selected}
        write_file(self.path / FILE, json.dumps(fields, indent=1) + "\n")

    def _read(self) -> None:
        path = self.path / FILE
        if not path.exists():
            return
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            self.solved = _of_lessons(fields["solved"], lambda day: isinstance(day, str))
            self.hints = _of_lessons(fields["hints"], lambda n: type(n) is int and n >= 0)
            self.steps = _of_lessons(fields.get("steps", {}), lambda step: isinstance(step, str))
            self.selected = fields.get("current") if fields.get("current") in lesson.NAMES else None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self.solved, self.hints, self.steps, self.selected = {}, {}, {}, None
            self.damaged_file = self.path / "qkv-learn.damaged.json"
            path.replace(self.damaged_file)


def _of_lessons(fields: dict[str, T], is_valid: Callable[[T], bool]) -> dict[str, T]:
    """Return the valid fields of existing lessons; another version may have written others."""
    return {name: value for name, value in fields.items() if name.partition(":")[0] in lesson.NAMES and is_valid(value)}


def _is_progress_file(path: Path) -> bool:
    """True if a qkv-learn.json is a file of this module."""
    try:
        return {"solved", "hints"} <= json.loads(path.read_text(encoding="utf-8")).keys()
    except (OSError, ValueError, AttributeError):
        return False
