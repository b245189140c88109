"""The person's folder: exercises copied into it, which are solved, how many hints were asked for.

`qkv-learn.json` in that folder remembers, as {"solved": {name: day}, "hints": {name: n}, "steps": {name: what was wrong last}, "current": name}. A file that a person has
changed is never written over.
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
    """Where somebody learns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.solved: dict[str, str] = {}
        self.hints: dict[str, int] = {}
        self.steps: dict[str, str] = {}  # of each lesson, what was wrong when it was last graded
        self.chosen: str | None = None
        self.damaged: Path | None = None  # where a qkv-learn.json that could not be read was put
        self._read()

    @classmethod
    def here(cls, asked: Path | None) -> "Folder":
        """The one asked for, else this folder if it is one already, else ./learn."""
        if asked is None:
            asked = Path() if _known(Path(FILE)) else Path("learn")
        return cls(asked)

    @property
    def current(self) -> str | None:
        """The lesson to work on: the one chosen if it isn't solved, else the first that isn't; None when all are."""
        if self.chosen is not None and self.chosen not in self.solved:
            return self.chosen
        return next((name for name in lesson.NAMES if name not in self.solved), None)

    def file(self, name: str) -> Path:
        """Where its exercise is, or would be."""
        return self.path / lesson.filename(name)

    def copy(self, name: str) -> bool:
        """Write the exercise out, unless a file is there that the person has changed; True if written."""
        place, text = self.file(name), lesson.write(name)
        if place.exists() and not self.untouched(name):
            return False
        if place.exists() and place.read_bytes() == text.encode():
            return False
        self.path.mkdir(parents=True, exist_ok=True)
        write_file(place, text)
        return True

    def untouched(self, name: str) -> bool:
        """Whether the file is as it was copied, in either language."""
        text = self.file(name).read_bytes()
        return any(text == lesson.write(name, lang).encode() for lang in LANGUAGES)

    def reset(self, name: str) -> Path | None:
        """The exercise anew; gives where the old file was put, None if there was none worth keeping."""
        place, kept = self.file(name), None
        if place.exists() and not self.untouched(name):
            folder = self.path / "backups"
            folder.mkdir(exist_ok=True)
            kept = next(path for i in range(1, 10**6) if not (path := folder / f"{place.stem}.{i}.py").exists())
            place.replace(kept)
        try:
            self.copy(name)
        except BaseException:  # a full disk, Ctrl-C
            if kept is not None:
                kept.replace(place)
            raise
        self.solved.pop(name, None)
        for key in [key for key in self.hints if key.partition(":")[0] == name]:
            del self.hints[key]
        self.steps.pop(name, None)
        self.chosen = name
        self.save()
        return kept

    def choose(self, name: str) -> None:
        """Work on that one."""
        self.chosen = name
        self.save()

    def solve(self, name: str) -> bool:
        """Remember that it was solved; True if it wasn't before."""
        new = name not in self.solved
        self.solved.setdefault(name, datetime.date.today().isoformat())
        self.chosen = None if self.chosen == name else self.chosen
        self.save()
        return new

    def stumble(self, name: str, step: str) -> None:
        """Remember what is wrong with it: hints are about that first."""
        self.steps[name] = step
        self.save()

    def next_hint(self, name: str, most: int) -> int:
        """The number of the hint to give now, from 0; stays at `most` when all were given. Each step has its own count."""
        key = f"{name}:{self.steps[name]}" if self.steps.get(name) else name
        at = min(self.hints.get(key, 0), most)
        self.hints[key] = min(at + 1, most)
        self.save()
        return at

    def save(self) -> None:
        """Write qkv-learn.json."""
        self.path.mkdir(parents=True, exist_ok=True)
        plain = {"solved": self.solved, "hints": self.hints, "steps": self.steps, "current": self.chosen}
        write_file(self.path / FILE, json.dumps(plain, indent=1) + "\n")

    def _read(self) -> None:
        place = self.path / FILE
        if not place.exists():
            return
        try:
            plain = json.loads(place.read_text(encoding="utf-8"))
            self.solved = _only(plain["solved"], lambda day: isinstance(day, str))
            self.hints = _only(plain["hints"], lambda n: type(n) is int and n >= 0)
            self.steps = _only(plain.get("steps", {}), lambda step: isinstance(step, str))
            self.chosen = plain.get("current") if plain.get("current") in lesson.NAMES else None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self.solved, self.hints, self.steps, self.chosen = {}, {}, {}, None
            self.damaged = self.path / "qkv-learn.damaged.json"
            place.replace(self.damaged)


def _only(plain: dict[str, T], good: Callable[[T], bool]) -> dict[str, T]:
    """What belongs to lessons there are; the rest is from another version, and is dropped."""
    return {name: value for name, value in plain.items() if name.partition(":")[0] in lesson.NAMES and good(value)}


def _known(place: Path) -> bool:
    """Whether a progress.json is one of ours, and not another"""
    try:
        return {"solved", "hints"} <= json.loads(place.read_text(encoding="utf-8")).keys()
    except (OSError, ValueError, AttributeError):
        return False
