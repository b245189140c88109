"""What True in a mask means: of the kinds of masks that a piece of attention takes rightly, which one is meant.

Whoever asks may say it; else the masks say it that the file makes, and that were run (makers.py). A comment proves
nothing: where it contradicts the code and the file makes no mask, there is a remark, and the verdict stays open.
"""

import re
from typing import Any

import numpy as np
import torch

from ...i18n import Message, _
from ..case import Case
from ..source.conventions import sayings
from ..subject import usage
from ..subject.formats import Format
from ..subject.made import Made

WORDS = {"keep": Message("may attend"), "block": Message("hidden")}
# Arguments whose masks are of different kinds, by their names.
KINDS = (r"pad|key|valid", r"src|source|enc|mem|cross", r"tgt|trg|target|dec|causal|look|subseq")


def meant(case: Case, parameter: str, right: list[Format], ran: set[str]) -> Format | None:
    """Of the formats in which it is right, the one that is meant; None where none is: then M1 or M7 is noted."""
    if told := case.asked.mask_true_means:
        return _told(case, parameter, right, told)
    verdicts: dict[str, tuple[Made, Format | None]] = {}
    for made in _for(case.made, parameter):
        verdict, format_ = _judged(made, right, ran)
        if verdict:
            verdicts.setdefault(verdict, (made, format_))
    if len(verdicts) == 1 and "fits" not in verdicts:  # a file with masks of two kinds blames nobody
        [(verdict, (made, format_))] = verdicts.items()
        blame(case, parameter, verdict, made, format_)
        return None
    if "fits" in verdicts:
        fits, format_ = verdicts.pop("fits")
        for other, _unused in verdicts.values():
            case.miss(
                f"meaning {parameter}", _("which mask reaches {parameter}: the file makes masks of two kinds; it is right with those of {one} (line {at}) and wrong with those of {other} (line {there})"), parameter=parameter, one=fits.name, at=fits.line,
                other=other.name, there=other.line,
            )  # fmt: skip
        return format_
    added = {f.kind for f in right} == {"additive"}
    if added and _called_with_ones(case, parameter):
        case.add("M7", "said", parameter=parameter)
        return None
    said = words(case, parameter)
    opposite = {f.meaning for f in right if f.shape != "lengths"} - {"additive"} == set(WORDS) - {said}
    if said in WORDS and (added or opposite):
        remarks = {
            "M1": _("a comment says that True in `{parameter}` means {said}, and the code takes it for the opposite: one of the two is wrong"),
            "M7": _("a comment says that True in `{parameter}` means {said}, and the code adds it to the scores: one of the two is wrong"),
        }  # fmt: skip
        id_ = "M7" if added else "M1"
        case.remark(id_, remarks[id_], parameter=parameter, said=WORDS[str(said)])
        case.miss(
            f"meaning {parameter}",
            _(
                "whether a True in {parameter} is meant to keep or to hide: a comment says one thing, the code does the other, and the file makes no such mask; say it with --mask-true-means"
            ),
            parameter=parameter,
        )
    return next((f for f in right if f.meaning == said), right[0])


def _called_with_ones(case: Case, parameter: str) -> bool:
    """Whether the file itself calls it with a mask of 0 and 1."""
    given = [call.given.get(parameter) for call in usage.examples(case.source, case.subject.name)]
    masks = [np.asarray(one) for one in given if isinstance(one, torch.Tensor | np.ndarray) and one.ndim >= 2]
    return any(set(np.unique(one)) == {0, 1} for one in masks)


def words(case: Case, parameter: str) -> str | None:
    """What comments say of this mask; what they say of masks at large, where there is but one."""
    said = sayings(case.says.segment, parameter, only=True)
    if said is None and (len(case.subject.masks) == 1 or parameter == "mask"):
        said = case.says.mask_words
    return said


def _told(case: Case, parameter: str, right: list[Format], told: str) -> Format | None:
    fitting = [f for f in right if f.meaning == told or f.shape == "lengths"]
    if fitting:
        return fitting[0]
    id_ = "M7" if right[0].meaning == "additive" else "M1"
    case.add(id_, "said", parameter=parameter, said=told, does=right[0].meaning)
    return None


def _for(made: list[Made], parameter: str) -> list[Made]:
    """The masks that are meant for this argument: by its name where that tells, else all."""
    exact = [one for one in made if parameter in (one.given, one.name.split(".")[-1])]
    kinds = [kind for kind in KINDS if re.search(kind, parameter.lower())]
    alike = [one for one in made if any(re.search(kind, one.name.lower()) for kind in kinds)]
    return exact or alike or made


def _judged(made: Made, right: list[Format], ran: set[str]) -> tuple[str, Format | None]:
    """ "fits", "inverted" or "added": what the code makes of a mask that the file makes; "" where that can't be told."""
    same = [f for f in right if f.kind == made.kind] or [
        f for f in right if (f.kind, made.kind) == ("float", "additive")
    ]
    for format_ in same:
        lets = made.lets(format_.meaning)
        if lets is not None:
            return ("fits" if lets else "inverted"), format_
    tells = made.lets("keep") is not None  # a triangle, or padding; a dropout's mask is neither
    added = {f.kind for f in right} == {"additive"} and made.kind in ran - {"additive"} and tells
    return ("added" if added else ""), None


def blame(case: Case, parameter: str, verdict: str, made: Made, format_: Format | None) -> None:
    """Note that what the file makes, and what the code takes it for, are opposites."""
    values: dict[str, Any] = {"parameter": parameter, "maker": made.name, "at": made.line, "shown": made.shown()}
    if verdict == "added":
        case.add("M7", "made", **values)
    elif format_ is not None and format_.kind == made.kind == "additive":
        case.add("M1", "reversed", line=made.line, **values)
    else:
        sign = {"additive": "0", "bool": "True"}.get(made.kind, "1")
        allowed = made.lets("additive" if made.kind == "additive" else "keep")
        case.add("M1", "made", sign=sign, means=WORDS["keep" if allowed else "block"], **values)
