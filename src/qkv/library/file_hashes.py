"""Detect changed files in the cache.

`.hashes.json` in the cache has the sha256 of each file, with the size and modification time at which it was computed;
it is computed again if either differs. A file without an expected hash is trusted when first seen.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ..disk.atomic_files import write_file
from ..disk.bounded_reading import JsonObject

NAME = ".hashes.json"
CHUNK = 1 << 22


def changed(
    home: Path,
    expected: Mapping[Path, str | None],
    *,
    again: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Path]:
    """Return the files whose content does not have the expected sha256; with `again`, hash all files anew."""
    notes, verified = read(home), {}
    mismatches, done, total = [], 0, sum(file.stat().st_size for file in expected)
    for file, sha256 in expected.items():
        key, state = file.relative_to(home).as_posix(), file.stat()
        now = {"bytes": state.st_size, "mtime": state.st_mtime_ns}
        note = notes.get(key) or {}
        sha256 = sha256 or note.get("sha256")
        if again or note != {"sha256": sha256, **now}:
            digest = _sha256(file, lambda part, done=done: progress(done + part, total))  # type: ignore[misc]
            if sha256 not in (None, digest):
                mismatches.append(file)
            else:
                verified[key] = {"sha256": digest, **now}
        done += state.st_size
    if verified:
        write(home, read(home) | verified)
    return mismatches


def forget(home: Path, folder: Path) -> None:
    """Drop the stored hashes of a folder's files."""
    notes, prefix = read(home), folder.relative_to(home).as_posix() + "/"
    remaining = {key: note for key, note in notes.items() if not key.startswith(prefix)}
    if remaining != notes:
        write(home, remaining)


def read(home: Path) -> JsonObject:
    """Return the stored hashes, {} if the file is absent or damaged."""
    try:
        notes = json.loads((home / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return notes if isinstance(notes, dict) else {}


def write(home: Path, notes: JsonObject) -> None:
    """Write the hashes atomically; errors are ignored, since they only make the next check slower."""
    with suppress(OSError):
        write_file(home / NAME, json.dumps(notes, indent=1, sort_keys=True))


def _sha256(file: Path, progress: Callable[[int], None]) -> str:
    digest, done = hashlib.sha256(), 0
    with file.open("rb") as opened:
        while part := opened.read(CHUNK):
            digest.update(part)
            done += len(part)
            progress(done)
    return digest.hexdigest()
