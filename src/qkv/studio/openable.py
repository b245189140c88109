"""What the studio may open, each under a name of its own: models by name, and what lies in the folders named at the start.

A browser says names, never paths: whatever is not on this list can't be opened. Needs no torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..disk import run_folder
from ..i18n import LANGUAGES, Problem, say, unknown
from ..library import store
from .frames import Fields

DEMO = Path(__file__).parent.parent / "demo"
FIRST = "trace:cat-smollm2"  # what the studio opens with, and the model that goes on from there
MOST = 200  # things that are looked for in the folders
DEPTH = 3  # folders within folders


@dataclass(frozen=True)
class OpenableFile:
    """What the worker opens for a name, and when it last changed, so that no old response is given for a new file."""

    name: str
    file: str
    trace: bool
    step: str
    changed: int


@dataclass(frozen=True)
class Openable:
    """Something to open."""

    name: str
    kind: str  # "named", "run", "folder", "file", "trace"
    path: Path
    checkpoints: tuple[int, ...] = ()  # of a run: the steps that it kept
    watched: tuple[int, ...] = ()  # … and those at which it watched itself

    def to_json(self) -> Fields:
        """For the picker."""
        return dict(name=self.name, kind=self.kind, checkpoints=list(self.checkpoints), watched=list(self.watched))

    def file(self, step: str = "") -> OpenableFile:
        """The file of a step, or of the whole."""
        path = self.path
        if step.startswith("~"):
            path = path / run_folder.WATCH / f"{int(step[1:]):06d}.safetensors"
        elif step:
            path = path / run_folder.CHECKPOINTS / f"{int(step[1:]):06d}"
        traced = self.kind == "trace" or step.startswith("~")
        shipped = path.is_relative_to(DEMO)  # changes with qkv alone
        inside = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else []
        changed = 0 if shipped else max(file.stat().st_mtime_ns for file in (path, *inside))
        return OpenableFile(f"{self.name}{step}", str(path), traced, step, changed)


def listed(folders: Sequence[Path]) -> list[Openable]:
    """All there is now, what is named first."""
    found = [Openable(item.name, "named", path) for item in store.listing("model") if (path := store.path(item.name))]
    found += [Openable("dates", "run", DEMO / "dates")]
    found += [
        Openable(f"trace:{file.stem}", "trace", file)
        for file in sorted((DEMO / "traces").glob("*.safetensors"), key=lambda file: f"trace:{file.stem}" != FIRST)
    ]
    for folder in folders:
        for place in _below(folder, folder, DEPTH):
            if len(found) >= MOST:
                return found
            if all(place.name != other.name for other in found):
                found.append(place)
    return found


def offered() -> list[Fields]:
    """Models that can be had by name and aren't here."""
    return [
        dict(
            name=item.name,
            size=item.package.size,
            licence=item.licence,
            note={lang: say(item.note, lang) for lang in LANGUAGES},
        )
        for item in store.listing("model")
        if hasattr(item, "package") and store.path(item.name) is None
    ]


def find(name: object, folders: Sequence[Path]) -> OpenableFile:
    """What a name means: `NAME`, `RUN@STEP` for a checkpoint, `RUN~STEP` for what a run saw of itself at a step."""
    there = listed(folders)
    for place in there:
        if place.name == name:
            return place.file()
        for sign, steps in (("@", place.checkpoints), ("~", place.watched)):
            if isinstance(name, str) and name.startswith(place.name + sign):
                step = name[len(place.name) + 1 :]
                if step.isascii() and step.isdigit() and int(step) in steps:
                    return place.file(f"{sign}{int(step)}")
    if not isinstance(name, str):
        raise Problem("the model is {found}: give its name", found=str(type(name).__name__))
    if any(item.name == name for item in store.listing("model")):
        raise store.absent(name)
    raise unknown("model", name, [place.name for place in there])


def _below(root: Path, folder: Path, depth: int) -> Iterator[Openable]:
    """Runs, models and traces of a folder; what can't be read is passed over."""
    name = str(folder) if folder == root else str(Path(root.name) / folder.relative_to(root))
    try:
        if folder.is_file():
            if folder.suffix == ".gguf":
                yield Openable(name, "file", folder)
            elif folder.suffix == ".safetensors" and _is_trace(folder):
                yield Openable(name, "trace", folder)
            return
        config = folder / run_folder.CONFIG
        told = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
        if isinstance(told, dict) and run_folder.is_run(told):
            steps = tuple(int(place.name) for place in run_folder.checkpoints(folder / run_folder.CHECKPOINTS))
            watched = tuple(run_folder.numbered(folder / run_folder.WATCH, ".safetensors"))
            if steps:
                yield Openable(name, "run", folder, steps, watched)
            return
        if isinstance(told, dict) and "model_type" in told:
            yield Openable(name, "folder", folder)
            return
        inside = sorted(folder.iterdir()) if depth and folder.is_dir() else []
    except (OSError, ValueError):
        return
    for inner in inside:
        if not inner.name.startswith(".") and not inner.is_symlink():
            yield from _below(root, inner, depth - 1)


def _is_trace(file: Path) -> bool:
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        return b'"qkv"' in opened.read(min(size, 4096))
