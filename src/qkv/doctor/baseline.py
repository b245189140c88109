"""A baseline: the findings of a project that are known, so that only new ones fail a run.

A JSON file, {"version": 1, "known": [{"path": …, "object": …, "id": …}, …]}. Paths are relative to the file itself. There
are no line numbers, so edits above a finding don't make it new.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     Baseline(Path(folder, "known.json"), {Known("model.py", "Attention", "S2")}).write()
...     print(Baseline.read(Path(folder, "known.json")).known)
{Known(path='model.py', object='Attention', id='S2')}
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..disk.atomic_files import write_file
from ..i18n import Problem, quoted
from .report import Report

VERSION = 1
FIELDS = ("path", "object", "id")


class Known(NamedTuple):
    """One finding: the file's path relative to the baseline, the class or function, and the id of the mistake."""

    path: str
    object: str
    id: str

    def __str__(self) -> str:
        return f"{self.path}:{self.object} {self.id}"


class Baseline:
    """The known findings, and the file that lists them."""

    def __init__(self, file: Path, known: set[Known]) -> None:
        self.file, self.known = file, known

    @classmethod
    def read(cls, file: Path) -> "Baseline":
        """Read a baseline; a `Problem` says why a file is not one."""
        try:
            content = json.loads(file.read_bytes())
        except OSError as error:
            raise Problem("{file} can't be read: {error}", file=file, error=quoted(error)) from None
        except (ValueError, RecursionError):
            raise Problem("{file} is not a baseline: it is not JSON", file=file) from None
        if not isinstance(content, dict) or not isinstance(content.get("known"), list):
            raise Problem("{file} is not a baseline: it has no list `known`", file=file)
        if content.get("version") != VERSION:
            raise Problem(
                "{file} is not a baseline of version {wanted}, which this qkv reads: write it again with "
                "--write-baseline",
                file=file,
                wanted=VERSION,
            )
        known = set()
        for number, entry in enumerate(content["known"], 1):
            fields = [entry.get(name) for name in FIELDS] if isinstance(entry, dict) else [None]
            if not all(isinstance(one, str) and one for one in fields):
                raise Problem(
                    "{file} is not a baseline: entry {number} of `known` needs path, object and id, each a text",
                    file=file,
                    number=number,
                )
            known.add(Known(*fields))
        return cls(file, known)

    @classmethod
    def of(cls, reports: Iterable[Report], file: Path) -> "Baseline":
        """Return a baseline in which all findings of these reports are known."""
        baseline = cls(file, set())
        baseline.known = {one for report in reports for one in baseline.entries(report)}
        return baseline

    def write(self) -> None:
        """Write it, sorted, one finding a line, so that a diff shows what changed."""
        lines = ",\n".join(
            "    " + json.dumps(dict(zip(FIELDS, one, strict=True)), ensure_ascii=False) for one in sorted(self.known)
        )
        entries = f"[\n{lines}\n  ]" if lines else "[]"
        write_file(self.file, f'{{\n  "version": {VERSION},\n  "known": {entries}\n}}\n')

    def entries(self, report: Report) -> list[Known]:
        """Return the findings of a report as this baseline lists them."""
        path, name = self._place(report)
        return [Known(path, name, one.id) for one in report.findings]

    def are_known(self, report: Report) -> list[bool]:
        """For each finding of a report, whether it is known."""
        return [one in self.known for one in self.entries(report)]

    def has_new(self, report: Report) -> bool:
        """True if a report is wrong by a finding that is not known."""
        return report.verdict == "wrong" and not all(self.are_known(report))

    def stale(self, reports: list[Report], folders: Iterable[Path]) -> list[Known]:
        """Return the known findings that are gone: the object was checked, or it is no longer in these folders.

        An object that could not be run, or a file that could not be read, says nothing about its findings.
        """
        found = {one for report in reports for one in self.entries(report)}
        checked = {self._place(report): report.verdict for report in reports}
        roots = [self._relative(folder) for folder in folders]

        def is_gone(one: Known) -> bool:
            verdict = checked.get((one.path, one.object)) or checked.get((one.path, ""))
            inside = any(
                not one.path.startswith("../") if root == "." else one.path.startswith(f"{root}/") for root in roots
            )
            return verdict != "unknown" if verdict else inside

        return sorted(one for one in self.known - found if is_gone(one))

    def count(self, reports: Iterable[Report]) -> int:
        """The number of findings that are known."""
        return sum(sum(self.are_known(report)) for report in reports)

    def _place(self, report: Report) -> tuple[str, str]:
        """The path and the object of a report; "" for a whole file that could not be read."""
        file, colon, name = report.target.rpartition(":")
        is_object = bool(colon) and not set("/\\") & set(name)
        return (self._relative(Path(file)), name) if is_object else (self._relative(Path(report.target)), "")

    def _relative(self, path: Path) -> str:
        """The path as seen from the baseline's folder, with forward slashes."""
        try:
            return Path(os.path.relpath(path.resolve(), self.file.resolve().parent)).as_posix()
        except ValueError:  # on another drive of Windows
            return path.resolve().as_posix()
