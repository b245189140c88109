"""What the studio may open, by name: named models, and runs, models and traces in the folders given at the start.

A browser sends names, never paths, so only what is listed here can be opened. Needs no torch.
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
FIRST = "trace:cat-smollm2"  # what the studio opens first; its model continues from there
MOST = 200  # most entries
DEPTH = 3  # levels of folders


@dataclass(frozen=True)
class OpenableFile:
    """The file behind a name, and when it last changed: cached responses of an older file aren't used."""

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
    checkpoints: tuple[int, ...] = ()  # of a run: the steps of its checkpoints
    watched: tuple[int, ...] = ()  # of a run: the steps of its recorded traces

    def to_json(self) -> Fields:
        """Return the entry as the picker shows it."""
        return dict(name=self.name, kind=self.kind, checkpoints=list(self.checkpoints), watched=list(self.watched))

    def file(self, step: str = "") -> OpenableFile:
        """Return the file of a step (`@…` or `~…`), or of the entry itself."""
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
    """Return all entries, named models first."""
    entries = [Openable(item.name, "named", path) for item in store.listing("model") if (path := store.path(item.name))]
    entries += [Openable("dates", "run", DEMO / "dates")]
    entries += [
        Openable(f"trace:{file.stem}", "trace", file)
        for file in sorted((DEMO / "traces").glob("*.safetensors"), key=lambda file: f"trace:{file.stem}" != FIRST)
    ]
    for folder in folders:
        for entry in _below(folder, folder, DEPTH):
            if len(entries) >= MOST:
                return entries
            if all(entry.name != other.name for other in entries):
                entries.append(entry)
    return entries


def offered() -> list[Fields]:
    """Return the named models that can be fetched and aren't here."""
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
    """Return the file of a name: `NAME`, `RUN@STEP` for a checkpoint, `RUN~STEP` for a trace recorded at a step."""
    entries = listed(folders)
    for entry in entries:
        if entry.name == name:
            return entry.file()
        for sign, steps in (("@", entry.checkpoints), ("~", entry.watched)):
            if isinstance(name, str) and name.startswith(entry.name + sign):
                step = name[len(entry.name) + 1 :]
                if step.isascii() and step.isdigit() and int(step) in steps:
                    return entry.file(f"{sign}{int(step)}")
    if not isinstance(name, str):
        raise Problem("the model is {found}: give its name", found=str(type(name).__name__))
    if any(item.name == name for item in store.listing("model")):
        raise store.absent(name)
    raise unknown("model", name, [entry.name for entry in entries])


def _below(root: Path, folder: Path, depth: int) -> Iterator[Openable]:
    """Yield the runs, models and traces of a folder; skip what can't be read."""
    name = str(folder) if folder == root else str(Path(root.name) / folder.relative_to(root))
    try:
        if folder.is_file():
            if folder.suffix == ".gguf":
                yield Openable(name, "file", folder)
            elif folder.suffix == ".safetensors" and _is_trace(folder):
                yield Openable(name, "trace", folder)
            return
        config = folder / run_folder.CONFIG
        settings = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
        if isinstance(settings, dict) and run_folder.is_run(settings):
            steps = tuple(
                int(checkpoint.name) for checkpoint in run_folder.checkpoints(folder / run_folder.CHECKPOINTS)
            )
            watched = tuple(run_folder.numbered(folder / run_folder.WATCH, ".safetensors"))
            if steps:
                yield Openable(name, "run", folder, steps, watched)
            return
        if isinstance(settings, dict) and "model_type" in settings:
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
