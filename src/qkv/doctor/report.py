"""What the doctor found, as a person reads it: the verdict, then per mistake the evidence, the line and the fix.

A report crosses the border between two processes as JSON, so it is plain values all through; texts are `Message`.

>>> report = Report("mine.py:attend", "right", adapted={"called": "attend(q, k, v)", "checked": ["scale", "axis"]})
>>> print(report)
✓ mine.py:attend is right: no mistake found (checks: 2)
<BLANKLINE>
  How it was run: called as attend(q, k, v); 2 checks
"""

import math
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..i18n import Message, _, language, say, translated, unpacked
from ..terminal import text_grid
from ..terminal.screen import InNotebook, plain

if TYPE_CHECKING:
    from .numbers.evidence import Evidence

# What a shell hears of each verdict. `partly`: no mistake was found, but not everything could be looked at.
EXIT = {"right": 0, "partly": 0, "wrong": 1, "unknown": 2}
SIGNS = {"right": "✓", "partly": "≈", "wrong": "✗", "unknown": "?"}
INK = {"right": "32", "partly": "33", "wrong": "31", "unknown": "33", "-": "31", "+": "32", "bold": "1", "dim": "2"}
MARGIN = 6
IGNORED = "ignored "  # what the id of a remark begins with if a comment silences its finding
MASKS = (_("True = may attend"), _("True = blocked"), _("additive"), _("lengths"))

VERDICTS = {
    "partly": _("{target} is right as far as checked: no mistake found (checks: {probes}), but not all could be done"),
    "right": _("{target} is right: no mistake found (checks: {probes})"),
    "right.plain": _("{target} is right"),
    "silenced": _("{target}: mistakes were found, and comments silence them (checks: {probes})"),
    "unknown": _("{target} could not be checked"),
    "wrong": _("{target} has a mistake"),
    "wrong.many": _("{target} has {n} mistakes"),
}
HOW = {
    "built": _("built as {value}"),
    "called": _("called as {value}"),
    "checked": _("{n} checks"),
    "checked.some": _("{n} checks, {skipped} more do not apply"),
    "heads": _("{value} heads"),
    "heads.one": _("one head"),
    "mask": _("mask: {value}"),
    "tried": _("tried {value}"),
}


@dataclass(frozen=True)
class Finding:
    """One mistake: its id as in docs/check.md, the numbers that show it, and where it most likely sits."""

    id: str
    evidence: Message
    line: int | None = None  # from 1; in a notebook, within the cell
    cell: int | None = None  # from 1, of a notebook
    diff: str = ""  # "- old\n+ new"; there is one only where it was tried and cures
    code: str = ""  # the text of that line
    edits: tuple[tuple[int, int, str], ...] = ()  # the same as the diff, in the file's text: (from, to, new)

    @property
    def name(self) -> Message:
        """What the mistake is called."""
        return self._of("name")

    @property
    def consequence(self) -> Message:
        """What it does to training."""
        return self._of("does")

    @property
    def fix(self) -> Message:
        """What to write instead."""
        return self._of("fix")

    def _of(self, what: str) -> Message:
        from .mistakes import CATALOGUE  # which loads NumPy: a report without findings does without

        known = CATALOGUE.get(self.id)
        return Message(getattr(known, what) if known else self.id if what == "name" else "")


@dataclass(frozen=True)
class Remark:
    """Something worth knowing that is no mistake, such as what a fully masked row gives."""

    id: str
    text: Message
    line: int | None = None
    cell: int | None = None


@dataclass
class Report(InNotebook):
    """The verdict on one class or function, and everything that led to it."""

    target: str  # "mymodel.py:MultiHeadAttention"
    verdict: str  # "right"; "partly": right as far as checked; "wrong"; "unknown": it could not be run
    findings: list[Finding] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    adapted: dict[str, Any] = field(default_factory=dict)  # how it was built and called
    problem: Message | None = None  # why it could not be run, and what to pass
    unseen: list[Remark] = field(default_factory=list)  # what should have been checked and was not, and why
    evidence: "Evidence | None" = field(
        default=None, repr=False, compare=False
    )  # the numbers that the verdict rests on

    def __post_init__(self) -> None:
        if self.verdict not in EXIT:
            raise ValueError(f"a verdict is one of {', '.join(EXIT)}, not {self.verdict!r}")
        if self.verdict == "right" and self.unseen:
            raise ValueError(f"not right but partly: {self.unseen[0].text}")
        if self.verdict == "partly" and not self.unseen:
            raise ValueError("partly says what was not checked: unseen is empty")

    @property
    def ok(self) -> bool:
        """Whether it is right, all of it: what is right as far as checked is not."""
        return self.verdict == "right"

    @property
    def exit_code(self) -> int:
        """0 right or right as far as checked, 1 wrong, 2 could not be run."""
        return EXIT[self.verdict]

    def __str__(self) -> str:
        return self.terminal()

    def terminal(self, lang: str | None = None, *, colour: bool = False, columns: int = 100) -> str:
        """The report as lines of text, in colour where the reader has one."""
        lang = language(lang)
        paint = Painter(colour)
        lines = [paint(f"{SIGNS[self.verdict]} {self.headline(lang)}", "bold", self.verdict)]

        def paragraph(text: str, indent: int = MARGIN) -> None:
            lines.extend(" " * indent + line for line in wrap(text, max(columns - indent, 20)))

        if self.problem is not None:
            lines.append("")
            paragraph(_in(self.problem, lang), 2)
        lines += self._listed(_("Not checked"), self.unseen, lang, paint, columns)
        for finding in self.findings:
            lines += ["", *self._finding(finding, lang, paint, columns)]
        lines += self._listed(_("Remarks, no mistakes"), self.remarks, lang, paint, columns)
        if run := self.how(lang):
            lines.append("")
            lines += [paint("  " + line, "dim") for line in wrap(run, max(columns - 2, 20))]
        return "\n".join(lines)

    def headline(self, lang: str | None = None) -> str:
        """The verdict in a sentence."""
        n = len(self.findings)
        probes = len(self.adapted.get("checked") or ())
        if self.verdict == "right":
            key = "right" if probes else "right.plain"
        elif self.verdict in ("partly", "unknown"):
            key = "silenced" if any(one.id.startswith(IGNORED) for one in self.unseen) else self.verdict
        else:
            key = "wrong" if n == 1 else "wrong.many"
        return say(VERDICTS[key], lang, target=self.target, n=n, probes=probes)

    def how(self, lang: str | None = None) -> str:
        """How it was built and called, in one line, so that a wrong guess of ours shows; `json` has all of it."""
        parts: list[str] = []
        for key in ("built", "called", "heads", "mask", "tried"):
            value = _plain(self.adapted.get(key), lang)
            for words in MASKS if key == "mask" and value else ():
                value = str(value).replace(words, translated(words, lang))
            if value not in (None, "", [], {}):
                one = ".one" if key == "heads" and value == 1 else ""
                listed = ", ".join(str(item) for item in value if item) if isinstance(value, list) else value
                if listed:
                    parts.append(say(HOW[key + one], lang, value=listed))
        if ran := len(self.adapted.get("checked") or ()):
            skipped = len(self.adapted.get("skipped") or ())
            parts.append(say(HOW["checked.some" if skipped else "checked"], lang, n=ran, skipped=skipped))
        return say("How it was run: {parts}", lang, parts=say("; ", lang).join(parts)) if parts else ""

    def json(self, lang: str | None = None) -> dict[str, Any]:
        """Plain values in one language, for a program to read."""
        lang = language(lang)
        return {
            "target": self.target,
            "verdict": self.verdict,
            "findings": [
                {
                    "id": finding.id,
                    "name": _in(finding.name, lang),
                    "evidence": _in(finding.evidence, lang),
                    "consequence": _in(finding.consequence, lang),
                    "line": finding.line,
                    "cell": finding.cell,
                    "code": finding.code,
                    "fix": _in(finding.fix, lang),
                    "diff": finding.diff,
                }
                for finding in self.findings
            ],
            "remarks": [
                {"id": remark.id, "text": _in(remark.text, lang), "line": remark.line, "cell": remark.cell}
                for remark in self.remarks
            ],
            "unseen": [{"id": one.id, "text": _in(one.text, lang)} for one in self.unseen],
            "adapted": _plain(self.adapted, lang),
            "problem": None if self.problem is None else _in(self.problem, lang),
        }

    def markdown(self, lang: str | None = None) -> str:
        """The report for an issue or a pull request."""
        lang = language(lang)
        sign = {"right": "✅", "partly": "🟡", "wrong": "❌", "unknown": "❔"}[self.verdict]
        blocks = [f"## {sign} {self.headline(lang)}"]
        if self.problem is not None:
            blocks.append(_fenced(_in(self.problem, lang)) if "\n" in str(self.problem) else _in(self.problem, lang))
        if self.unseen:
            blocks.append("### " + say("Not checked", lang))
            blocks.append("\n".join(f"- {_in(one.text, lang)}" for one in self.unseen))
        for finding in self.findings:
            blocks += [f"### {self._title(finding, lang)}", _in(finding.evidence, lang)]
            if finding.consequence:
                blocks.append("**" + say("What it does: ", lang).strip() + "** " + _in(finding.consequence, lang))
            if place := self._place(finding, lang):
                blocks.append(f"`{place}`" + (f"\n\n{_fenced(finding.code.strip(), 'python')}" if finding.code else ""))
            if finding.fix:
                blocks.append("**" + say("Fix: ", lang).strip() + "** " + _in(finding.fix, lang))
            if finding.diff:
                blocks.append(_fenced(finding.diff.rstrip("\n"), "diff"))
            if finding.edits:
                blocks.append(say("Tried: with this change the mistake is gone.", lang))
        if self.remarks:
            blocks.append("### " + say("Remarks, no mistakes", lang))
            blocks.append("\n".join(f"- {_in(r.text, lang)}{self._where(r, lang)}" for r in self.remarks))
        if run := self.how(lang):
            blocks.append(f"*{run}*")
        return "\n\n".join(blocks) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Everything, in both languages; `from_dict` gives the same report back."""
        return {
            "target": self.target,
            "verdict": self.verdict,
            "findings": [{name: _packed(value) for name, value in vars(f).items()} for f in self.findings],
            "remarks": [{name: _packed(value) for name, value in vars(r).items()} for r in self.remarks],
            "unseen": [{name: _packed(value) for name, value in vars(r).items()} for r in self.unseen],
            "adapted": _packed(self.adapted),
            "problem": _packed(self.problem),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Report":
        """A report from what `to_dict` gave, also after JSON."""
        whole = _unpacked(values)
        findings = [
            Finding(**{**finding, "edits": tuple((begin, end, new) for begin, end, new in finding.get("edits", ()))})
            for finding in whole.pop("findings", [])
        ]
        remarks, unseen = ([Remark(**one) for one in whole.pop(key, [])] for key in ("remarks", "unseen"))
        return cls(findings=findings, remarks=remarks, unseen=unseen, **whole)

    def _listed(self, title: str, items: list[Remark], lang: str, paint: "Painter", columns: int) -> list[str]:
        lines = ["", "  " + paint(say(title, lang), "bold")] if items else []
        for item in items:
            first, *rest = wrap(_in(item.text, lang) + self._where(item, lang), max(columns - 4, 20)) or [""]
            lines += [f"  · {first}", *("    " + line for line in rest)]
        return lines

    def _finding(self, finding: Finding, lang: str, paint: "Painter", columns: int) -> list[str]:
        lines = ["  " + paint(self._title(finding, lang), "bold")]

        def paragraph(text: str) -> None:
            lines.extend(" " * MARGIN + line for line in wrap(text, max(columns - MARGIN, 20)))

        paragraph(_in(finding.evidence, lang))
        if finding.consequence:
            paragraph(say("What it does: ", lang) + _in(finding.consequence, lang))
        if place := self._place(finding, lang):
            lines.append(" " * MARGIN + paint(place, "bold"))
            if finding.code:
                lines.append(" " * MARGIN + paint(f"{finding.line:>4} │ ", "dim") + plain(finding.code.strip()))
        if finding.fix:
            paragraph(say("Fix: ", lang) + _in(finding.fix, lang))
        for line in plain(finding.diff).rstrip("\n").split("\n") if finding.diff else []:
            lines.append(" " * (MARGIN + 2) + (paint(line, line[0]) if line[:1] in ("-", "+") else line))
        if finding.edits:
            paragraph(say("Tried: with this change the mistake is gone.", lang))
        return lines

    def _title(self, finding: Finding, lang: str) -> str:
        return f"{finding.id}  {_in(finding.name, lang)}"

    def _place(self, item: Finding | Remark, lang: str) -> str:
        """Where it sits, as editors and terminals make it clickable."""
        if item.line is None:
            return ""
        file = self.target.rsplit(":", 1)[0] if re.search(r"\.(py|ipynb|txt|md)(:|$)", self.target) else ""
        if item.cell is not None:
            return say("{file} cell {cell}, line {line}", lang, file=file, cell=item.cell, line=item.line).strip()
        return f"{file}:{item.line}" if file else say("line {line}", lang, line=item.line)

    def _where(self, remark: Remark, lang: str) -> str:
        place = self._place(remark, lang)
        return say(" ({text})", lang, text=place) if place else ""


def worst(reports: Iterable[Report]) -> str:
    """One verdict for several: wrong if any is, else unknown if any could not be run, else partly, else right."""
    verdicts = {report.verdict for report in reports}
    return next((one for one in ("wrong", "unknown", "partly", "right") if one in verdicts), "unknown")


def wrap(text: str, columns: int) -> list[str]:
    """Lines of at most that many cells, cut at blanks and between 汉字; what fits nowhere keeps its length.

    >>> wrap("scores / √d 除以根号下的宽度", 14)
    ['scores / √d 除', '以根号下的宽度']
    """
    lines: list[str] = []
    for line in plain(text).split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        now = ""
        # Closing signs stay with what they close.
        for piece in re.findall(r"\s+|[\u3400-\u9fff][，。；：、？！）」”》]*|[^\s\u3400-\u9fff]+", line.strip()):
            if now and text_grid.width(indent + now + piece.rstrip()) > columns:
                lines.append((indent + now).rstrip())
                now = ""
            now += piece if now or not piece.isspace() else ""
        lines.append((indent + now).rstrip())
    return lines


class Painter:
    """Puts a text in colour, or leaves it as it is."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, *inks: str) -> str:
        codes = ";".join(INK[ink] for ink in inks)
        text = plain(text)
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colour and text else text


def width_of_terminal() -> int:
    """As wide as the terminal, but no line longer than a person reads."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, 40), 110)


def _in(text: Message, lang: str) -> str:
    return plain(text.say(lang))


def _fenced(text: str, kind: str = "") -> str:
    """A block of code; the fence is longer than any inside it."""
    ticks = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return f"{ticks}{kind}\n{text}\n{ticks}"


def _plain(value: Any, lang: str | None) -> Any:
    """The same in one language, as JSON knows it: no NaN, no tuples, nothing of numpy's or torch's."""
    if isinstance(value, Message):
        return _in(value, language(lang))
    if isinstance(value, dict):
        return {str(key): _plain(item, lang) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, lang) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)


def _packed(value: Any) -> Any:
    """`Message` marked as such, the rest plain."""
    if isinstance(value, Message):
        return {"message": value.packed()}
    if isinstance(value, dict):
        return {str(key): _packed(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_packed(item) for item in value]
    return _plain(value, "en")


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"message"}:
            return unpacked(value["message"])
        return {key: _unpacked(item) for key, item in value.items()}
    return [_unpacked(item) for item in value] if isinstance(value, list) else value
