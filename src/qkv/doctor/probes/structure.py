"""The shape of things: how many keys, who sees whom, and along which axis attention runs."""

import inspect
import re
from typing import Any

import numpy as np
from torch import nn

from ...i18n import _
from ..case import Case
from ..mistakes.mistake import triangle
from ..numbers.watching import poked
from ..source import conventions
from ..subject import usage
from ..subject.errors import UserError, last_line, line_of
from ..subject.subject import Subject


def support(
    subject: Subject, inputs: dict[str, np.ndarray], given: dict[str, Any] | None = None, roles: Any = None
) -> tuple[np.ndarray, bool]:
    """(N, M): whether output i moves with input j; and whether another text's output moves."""
    base = subject(inputs, given).output
    role = (roles or list(inputs))[0]
    axis = -1 if subject.layout == "ids" else -2
    m = inputs[role].shape[axis]
    rows = []
    across = False
    for j in range(m):
        moved = subject(poked(subject, inputs, j, 0, roles), given).output
        change = np.abs(np.nan_to_num(moved) - np.nan_to_num(base))
        scale = np.abs(np.nan_to_num(base)).max() or 1.0
        if subject.layout in ("bhnd", "bnhd") and change.ndim == 4:
            rows.append((change[0] > 1e-12 * scale).any((0, -1)))
        else:
            rows.append((change[0] > 1e-12 * scale).any(-1))
        if len(change) > 1 and (change[1:] > 1e-9 * scale).any():
            across = True
    return np.stack(rows, 1), across


def lengths(case: Case) -> None:
    """Keys of another number than queries, where that runs."""
    subject = case.subject
    n, m = subject.sizes.queries, subject.sizes.keys
    inputs = subject.draw()
    lengths = (n, n)
    if subject.crosses:
        try:
            other = subject.draw(n=n, m=m)
            subject(other)
            inputs, lengths = other, (n, m)
        except UserError:
            pass
    case.inputs, case.lengths = inputs, lengths


def who_sees_whom(case: Case) -> None:
    subject, inputs = case.subject, case.inputs
    roles = [r for r in subject.inputs if r in ("k", "v", "memory")] or None
    try:
        case.support, case.across = support(subject, inputs, None, roles)
    except UserError as error:
        case.stopped("who sees whom", error)
        return
    seen = case.support
    if roles == ["memory"] and np.array_equal(seen, np.eye(len(seen))) and _asks_with_the_memory(case):
        return who_sees_whom(case)
    alone = seen is not None and seen.shape[0] == seen.shape[1] and np.array_equal(seen, np.eye(len(seen), dtype=bool))
    case.apart = alone and not case.across and not subject.crosses and len(seen) > 1


def _asks_with_the_memory(case: Case) -> bool:
    """Swap the two texts if the outputs, which move with their own token of the second alone, mix tokens of the first."""
    swapped, before = {"x": "memory", "memory": "x"}, case.subject.roles
    try:
        seen = support(case.subject, case.inputs, None, ["x"])[0]
    except (UserError, KeyError):
        return False
    if np.array_equal(seen, np.eye(*seen.shape)):
        return False
    case.subject.roles = {p: swapped.get(r, r) for p, r in before.items()}
    lengths(case)
    return True


def sees_only_future(case: Case) -> bool:
    """Whether each token sees those after itself alone: a causal mask the wrong way round. The last one has no key, so it
    may give anything; as the one that asks a token moves its own output too, if there are two keys to choose from."""
    seen = case.support
    if seen is None or seen.shape[0] != seen.shape[1]:
        return False
    keep = triangle(len(seen), len(seen), "strictly transposed")
    asks = np.eye(len(keep), dtype=bool) & (keep.sum(-1, keepdims=True) > 1)
    return np.array_equal(seen[:-1], (keep | asks if "x" in case.subject.inputs else keep)[:-1])


def layout(case: Case) -> None:
    """Attention over the first axis: meant so (sequence first), or batch and sequence confused?"""
    subject = case.subject
    if not case.across or subject.layout != "bnc" or case.support is None:
        return
    n = len(case.support)
    alone = case.support.shape[0] == case.support.shape[1] and np.array_equal(case.support, np.eye(n, dtype=bool))
    deaf = not case.support.any()
    if not (alone or (deaf and subject.crosses)):
        if _says_sequence_first(case):  # texts are mixed, and so they are read the other way
            subject.layout = "nbc"
            lengths(case)
            who_sees_whom(case)
        return
    is_sequence_first = _says_sequence_first(case)
    subject.layout = "nbc"  # its numbers can be compared all the same
    lengths(case)
    who_sees_whom(case)
    if not is_sequence_first and _is_batch_first(case):
        case.axes_confused = True
        case.add("H9")
    elif not is_sequence_first:
        case.miss(
            "layout", _("whether texts or tokens come first: attention runs over the first axis, and nothing says")
        )


def _is_batch_first(case: Case) -> bool:
    """True if the code's words, or what it does with the axes, say that the first axis is the batch."""
    text = case.says.segment
    axes = {axis for words in conventions.spoken(text) for axis in batch_axes(words)}
    unpacked = r"\b(b|bs|bsz|batch\w*|n_?batch)\s*,\s*\w+\s*(,\s*\w+)*\s*=\s*[\w.]+\.(shape|size\(\))"
    counted = r"\.(size\(1\)|shape\[1\])|\[:,\s*(0|-1)\b|\.(mean|max|sum)\(\s*(dim=|axis=)?1\b|batch_first\s*=\s*True"
    return 0 in axes or bool(re.search(unpacked, text, re.IGNORECASE) or re.search(counted, text))


def _says_sequence_first(case: Case) -> bool:
    """torch's own modules say it by batch_first, as may others; else by the names they give the axes, or the file swaps
    them before it calls this."""
    owner = case.subject.owner
    if type(owner).__module__.startswith("torch.nn"):
        return True
    text, whole = case.says.segment, case.says.text
    if re.search(r"batch_first\s*=\s*True", text):
        return False
    if isinstance(owner, nn.Module) and "batch_first" in inspect.signature(type(owner)).parameters:
        return True  # a switch, as torch's own have it: both orders are meant
    said = {place for words in conventions.spoken(text) for place in batch_axes(words)}
    if said == {0}:
        return False
    first = r"(t|l|s|n|seq\w*|tgt_len|src_len|length|time\w*|q_len|q_seq\w*|nq|T|L|S|tgt|n_?tokens?|n_?tgt|n_?src|sl|tlen|qlen|len_?q)"
    second = r"(b|bs|bsz|batch\w*|B|N|nb|n_?batch|batch_size)"
    unpacked = rf"\b{first}\s*,\s*{second}\s*(,\s*\w+)*\s*=\s*[\w.]+\.(shape|size\(\))"
    if 1 in said or re.search(unpacked, text):
        return True
    if not re.search(r"nn\.MultiheadAttention|nn\.Transformer", text) and re.search(unpacked, whole):
        return True  # a wrapper of the file's own attention
    swapped = r"\.(permute\(\s*1\s*,\s*0\s*,|transpose\(\s*(0\s*,\s*1|1\s*,\s*0)\s*\)|swapaxes\(\s*0\s*,\s*1)"
    return bool(
        re.search(
            r"(seq\w*|time|length)[-_ ]first|sequence first|batch_first\s*=\s*False|\b(T|Time|L|S) [x×] (B|Batch) [x×] (C|Channel|D)\b",
            text,
            re.IGNORECASE,
        )
        or (re.search(swapped, whole.replace(text, "")) and not re.search(swapped, text))
    )


def batch_axes(words: str) -> set[int]:
    """Where the batch stands in the shapes of three axes or more that words name; not in those of masks and weights.

    >>> batch_axes("x: (HW, B, C)"), batch_axes("T x B x C, normed"), batch_axes("(batch, seq, dim)"), batch_axes("mask: (B, n, m)")
    ({1}, {1}, {0}, set())
    >>> batch_axes("(S, N, E) as torch has it")  # N is the batch beside a length
    {1}
    """
    words = re.sub(r"\w*(mask|weights|score)\w*\s*[:=]?\s*[\[(][^)\]]*[)\]]", "", words)
    batch = r"(b|bs|bsz|nb|n_?batch|batch\w*|批\w*)"
    shapes = re.findall(r"[\[(]([^()\[\]]+)[)\]]|(\b\w+(?:\s*[x×]\s*\w+){2,})", words)
    found = set()
    for bracketed, crossed in shapes:
        axes = [a.strip() for a in re.split(r"[,，×]|\bx\b", bracketed or crossed)]
        place = next((i for i, axis in enumerate(axes) if re.fullmatch(batch, axis, re.IGNORECASE)), None)
        if place is None and "N" in axes[:2]:
            beside = axes[1 - axes.index("N")]
            place = axes.index("N") if re.fullmatch(r"[lst]|(seq|len|time|tgt|src)\w*", beside, re.IGNORECASE) else None
        if len(axes) >= 3 and place in (0, 1):
            found.add(place)
    return found


def takes_many(case: Case, text: str) -> bool:
    """Whether its words speak of many texts at once, or its own file hands it some."""
    if re.search(r"\bbatch|\(B,|\[B,", text):
        return True
    calls = usage.examples(case.source, case.subject.name)
    return any(getattr(given, "ndim", 0) == 3 for call in calls for given in call.given.values())


def left_out(case: Case) -> None:
    """What ran only after something was left out: batches, shared key heads."""
    subject = case.subject
    text = case.says.segment
    alone = re.search(r"(no|without|un)[- ]?batch|(one|single) (sentence|sequence|text|example)", text, re.IGNORECASE)
    if subject.layout == "nc" and subject.failures and not alone and takes_many(case, text):
        shaped = [
            e for e in subject.failures if re.search(r"shape|size|dimension|batch|broadcast|mismatch|expected", str(e))
        ]
        if shaped and re.search(r"\.T\b|\.t\(\)", text):
            case.add("S7", error=last_line(shaped[-1]))
    if "mask" in subject.needed and "frequencies" not in subject.needed and subject.failures:
        error = subject.failures[0]
        case.add("M17", "without", error=last_line(error), line=line_of(error))
    if subject.grouped is not None and re.search(r"shape|size|view|split|mismatch", str(subject.grouped)):
        case.add("H7", "crash", error=last_line(subject.grouped), line=line_of(subject.grouped))
