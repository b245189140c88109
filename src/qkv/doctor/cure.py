"""A patch is shown only where it cures; and what shows only in the mended file, since one mistake may hide another."""

import difflib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..i18n import Message, _
from .report import Finding, Report
from .source.file import Source
from .subject.errors import Calls
from .subject.values import settings


def proved(findings: list[Finding], source: Any, again: Callable[[Source], Report | None]) -> list[Finding]:
    """Each with its patch only where the patched file has it no more; behind them, the mistakes that they hid."""
    ids = {finding.id for finding in findings}
    proved, behind = [], list[Finding]()
    for finding in findings:
        patched = source.edited(finding.edits) if finding.diff else None
        report = again(patched) if patched is not None else None
        left = report.findings if report is not None else []
        new = [one for one in left if one.id not in ids]
        shown = [_behind(one, finding, source, patched) for one in new]
        cured = report is not None and report.verdict != "unknown" and finding.id not in {one.id for one in left}
        if cured and None not in shown:
            behind += [one for one in shown if one is not None]
        proved.append(finding if cured and None not in shown else replace(finding, diff="", edits=()))
    return proved + list({one.id: one for one in behind}.values())


def stops_a_call(before: Calls, after: Calls) -> bool:
    """True if the patched code raises where the code as it was did not.

    Calls without a mask must end. With one, a shape that ran by mistake may be refused, but every name must be there.
    """
    patched = {(name, built): subject for (name, built, *_given), (subject, _arguments) in after.items()}
    for key, (subject, arguments) in before.items():
        other = patched.get(key[:2])
        if other is None or other.dtype != subject.dtype or other.layout != subject.layout:
            continue
        if other.left is not None:
            other.left.restore(other.owner)
        masked = any(arguments.get(parameter) is not None for parameter in subject.masks)
        try:
            positional, named = other.bind(arguments)
            with settings(other.dtype), torch.no_grad():
                other.function(*positional, **named)
        except (NameError, AttributeError, TypeError):
            return True
        except Exception:
            if not masked:
                return True
    return False


def _by_the_patch(one: str, first: str) -> bool:
    """Whether a mistake is rather the patch's: nothing hides what training shows, and half a patch of a scale, of heads, of
    a projection or of a state makes its neighbour. k.T, which crashes, hides the scale as well."""
    return one[0] in "TNWE" or (one[0] == first[0] and one[0] in "SXHPRL" and first != "S7")


def _behind(one: Finding, first: Finding, source: Source, patched: Source | None) -> Finding | None:
    """What shows once the first mistake is mended, on its line of the file as it is; None if the patch itself did it."""
    assert patched is not None
    if _by_the_patch(one.id, first.id):
        return None
    where = (one.line or 0) + (patched.starts[one.cell - 1] if one.cell else 0)
    blocks = difflib.SequenceMatcher(None, patched.lines, source.lines, autojunk=False).get_matching_blocks()
    line = next((b + where - a for a, b, size in blocks if a < where <= a + size), None)
    if one.line and line is None:  # on a line of the patch: a mistake beside it has an expression of its own there
        shift, written = 0, []
        for begin, end, new in sorted(first.edits):
            written.append((begin + shift, begin + shift + len(new)))
            shift += len(new) - (end - begin)
        apart = one.edits and not any(b < end and begin < e for b, e, _new in one.edits for begin, end in written)
        if not apart or patched.text.count("\n") != source.text.count("\n"):
            return None
        line = where
    cell, shown = source.place(line) if line else (None, None)
    evidence = Message(_("once that is mended ({first}): {evidence}"), first=first.name, evidence=one.evidence)
    code = source.line(line).strip()
    return replace(one, evidence=evidence, line=shown, cell=cell, code=code, diff="", edits=())
