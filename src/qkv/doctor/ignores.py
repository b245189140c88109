"""Comments that silence findings: `# qkv: ignore[S2]`, or several ids, `# qkv: ignore[S2, M1]`.

On the line of a finding the comment silences that finding; on the line of a `def` or `class`, all findings of these ids
in the definition. The report names what was silenced, and is never a plain "right".
"""

import ast
import re
from collections.abc import Iterator

from ..i18n import Message, _
from .report import IGNORED, Finding, Remark, Report
from .source.file import Definition, Source

COMMENT = re.compile(r"#.*?\bqkv:\s*ignore\[([^\]]*)\]", re.IGNORECASE)


def apply_ignores(report: Report, source: Source, name: str) -> Report:
    """Return the report without the findings that comments silence; a list under "not checked" says which these are."""
    if not COMMENT.search(source.text):
        return report
    silenced = {id(one): line for one in report.findings if (line := _comment_line(one, source, name))}
    if not silenced:
        return report
    remarks = [
        Remark(
            IGNORED + one.id,
            Message(
                _("{id} was found ({name}), and the comment `# qkv: ignore` in line {at} silences it"),
                id=one.id,
                name=one.name,
                at=silenced[id(one)],
            ),
            one.line,
            one.cell,
        )
        for one in report.findings
        if id(one) in silenced
    ]
    report.findings = [one for one in report.findings if id(one) not in silenced]
    if report.findings:
        report.remarks += remarks
    else:
        report.unseen += remarks
        report.verdict = "partly"
    return report


def is_silenced(report: Report) -> bool:
    """True if the only reason against a plain "right" is what comments silence."""
    return report.verdict == "partly" and all(one.id.startswith(IGNORED) for one in report.unseen)


def _comment_line(finding: Finding, source: Source, name: str) -> int | None:
    """The line of the comment that silences a finding, as its file or cell counts it."""
    line = finding.line
    if line is not None and finding.cell is not None:
        line += source.starts[finding.cell - 1]
    for number in _lines_for(line, source, name):
        match = COMMENT.search(source.line(number))
        if match and finding.id in {one.strip().upper() for one in match[1].split(",")}:
            return source.place(number)[1]
    return None


def _lines_for(line: int | None, source: Source, name: str) -> Iterator[int]:
    """The lines whose comments apply: the finding's own, then the headers of the definitions around it and of the target."""
    if line is not None:
        yield line
    target = source.definitions.get(name.split(".")[0])
    for node in ast.walk(source.tree):
        if isinstance(node, Definition):
            inside = line is not None and node.lineno <= line <= (node.end_lineno or line)
            if inside or node is target:
                yield from range(node.lineno, max(node.lineno, node.body[0].lineno - 1) + 1)
