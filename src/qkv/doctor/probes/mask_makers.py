"""A function that makes masks: is its triangle the causal one, as the attention of its file takes masks?

Its name proves nothing. It is run on texts of which the last words are padding, and the triangle that comes is compared
with what the attention in the same file makes of a True. A triangle whose diagonal is off by one is wrong in either
sense; one that stands the other way round may be inverted or transposed on its way, so that is left open.
"""

import ast
import contextlib
import re
from collections.abc import Callable

import numpy as np

from ...i18n import Message, Problem, _
from ..case import Found
from ..conclusion import finding
from ..mistakes.mistake import triangle
from ..mistakes.triangles import WrongTriangle
from ..report import Remark, Report
from ..source.file import Source
from ..source.looks import makes_masks
from ..subject import makers
from ..subject.made import Made

KIND = "mask maker"
MOST = 4  # attentions of the file that are asked
MEANINGS = {"may attend": "keep", "blocked": "block", "additive": "additive"}
OFF_BY_ONE = ("ahead", "strict")
FILLS = re.compile(r"\b(eye|fill_diagonal_?|roll)\b")  # somewhere in the file: the diagonal may be mended later
ON_PURPOSE = re.compile(r"strict|exclusive|shift", re.IGNORECASE)  # in the function itself


def examine(source: Source, name: str, label: str, diagnose: Callable[[str], Report]) -> Report | None:
    """Report on a maker of masks; None for everything else. `diagnose` reports on another name of the file."""
    node = source.definitions.get(name)
    if node is None or isinstance(node, ast.ClassDef) or not makes_masks(node) or name not in source.candidates():
        return None
    made = makers.made_by(source, name)
    adapted = {"kind": KIND, "called": f"{name}({', '.join(one.arg for one in node.args.args)})"}
    if not made:
        return _unknown(label, adapted, _("{name} makes masks, and could not be run by itself: not checked"), name)
    meanings = _meanings(source, diagnose)
    if len(meanings) != 1:
        text = _("{name} makes masks, and nothing in its file shows what its attention takes True for: not checked")
        return _unknown(label, adapted, text, name)
    [meaning] = meanings
    kind = _kind(made[0], meaning)
    first, last = source.segment(name)
    meant = ON_PURPOSE.search("\n".join(source.lines[first - 1 : last])) or FILLS.search(source.text)
    if kind in OFF_BY_ONE and not meant:
        found = Found("M12", WrongTriangle.evidence[kind], {})
        return Report(label, "wrong", [finding(found, source, name)], adapted=adapted)
    if kind in ("", *OFF_BY_ONE):
        text = _("{name} makes masks of a form that is not known here: not checked")
        return _unknown(label, adapted, text, name)
    text = (
        _("whether {name} is inverted or transposed before attention gets it: as it is, it hides the past or the words")
        if kind in ("inverted", "transposed")
        else _("whether what {name} makes reaches attention unchanged, and at other sizes")
    )
    return Report(label, "partly", adapted=adapted, unseen=[Remark("use", Message(text, name=name))])


def _meanings(source: Source, diagnose: Callable[[str], Report]) -> set[str]:
    """What the attentions of the file take True for."""
    found = set()
    for name in source.candidates()[:MOST]:
        node = source.definitions[name]
        if makes_masks(node):
            continue
        with contextlib.suppress(Problem):  # it can't be loaded
            text = str(diagnose(name).adapted.get("mask", ""))
            found |= {meaning for words, meaning in MEANINGS.items() if words in text}
    return found


def _kind(made: Made, meaning: str) -> str:
    """ "causal" or "padding": as it should be; "inverted", "transposed"; "strict", "ahead": off by one; "": else."""
    if (made.kind == "additive") != (meaning == "additive"):
        return ""
    keep = {"keep": made.values != 0, "block": made.values == 0, "additive": made.values > -100}[meaning]
    n = keep.shape[-1]
    if keep.ndim >= 2 and keep.shape[-2] == n:
        first = keep.reshape(-1, n, n)[0]  # of several texts, the one without padding
        for kind in ("causal", "strict", "ahead", "transposed"):
            if np.array_equal(first, triangle(n, n, kind)):
                return kind
        if np.array_equal(first, triangle(n, n, "strictly transposed")):
            return "inverted"
    lets = made.lets(meaning)
    return "" if lets is None else "padding" if lets else "inverted"


def _unknown(label: str, adapted: dict[str, str], sentence: str, name: str) -> Report:
    return Report(label, "unknown", problem=Message(sentence, name=name), adapted=adapted)
