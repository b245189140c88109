"""The shape of things: how many keys, who sees whom, and along which axis attention runs."""

import re

import numpy as np

from . import conventions
from .examine import Case, support
from .mistakes.mistake import triangle
from .subject import UserError, last_line, line_of


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
    case.notes["inputs"], case.notes["lengths"] = inputs, lengths


def who_sees_whom(case: Case) -> None:
    subject, inputs = case.subject, case.notes["inputs"]
    roles = [r for r in subject.inputs if r in ("k", "v", "memory")] or None
    try:
        case.support, case.across = support(subject, inputs, None, roles)
    except UserError as error:
        case.stopped("who sees whom", error)
        return
    seen = case.support
    alone = seen is not None and seen.shape[0] == seen.shape[1] and np.array_equal(seen, np.eye(len(seen), dtype=bool))
    case.notes["apart"] = alone and not case.across and not subject.crosses and len(seen) > 1


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
        return
    if case.facts.get("batch_first") is not True and _says_sequence_first(case):
        subject.layout = "nbc"
        lengths(case)
        who_sees_whom(case)
    else:
        case.notes["batch_first_confusion"] = True
        subject.layout = "nbc"  # its numbers can be compared all the same
        lengths(case)
        who_sees_whom(case)
        case.add("H9")


def _says_sequence_first(case: Case) -> bool:
    """torch's own modules say it by batch_first; others by the names they give the axes."""
    owner = case.subject.owner
    if type(owner).__module__.startswith("torch.nn"):
        return True
    text = case.facts.get("segment_text", "")
    said = re.sub(r"\w*mask\w*\s*[:=]?\s*[\[(][^)\]]*[)\]]", "", " ".join(conventions._spoken(text)))
    if re.search(
        r"[\[(]\s*(b|bs|bsz|batch\w*)\s*,\s*(t|l|s|n|seq\w*|time\w*|len\w*|tokens?|num_tokens)\s*,", said, re.IGNORECASE
    ):
        return False
    if re.search(r"batch_first\s*=\s*True", text):
        return False
    first = r"(t|l|s|n|seq\w*|tgt_len|src_len|length|time\w*|q_len|q_seq\w*|nq|T|L|S|tgt|n_?tokens?|n_?tgt|n_?src|sl|tlen|qlen|len_?q)"
    second = r"(b|bs|bsz|batch\w*|B|N|nb|n_?batch|batch_size)"
    if re.search(rf"\b{first}\s*,\s*{second}\s*(,\s*\w+)*\s*=\s*[\w.]+\.(shape|size\(\))", text):
        return True
    if not re.search(r"nn\.MultiheadAttention|nn\.Transformer", text):  # a wrapper of the file's own attention
        text = case.facts.get("text", "")
        if re.search(rf"\b{first}\s*,\s*{second}\s*(,\s*\w+)*\s*=\s*[\w.]+\.(shape|size\(\))", text):
            return True
    return bool(
        re.search(rf"[\[(]\s*{first}\s*(,|\bx\b|×)\s*{second}\b", text, re.IGNORECASE)
        or re.search(r"(seq\w*|time|length)[-_ ]first|sequence first", text, re.IGNORECASE)
    )


def left_out(case: Case) -> None:
    """What ran only after something was left out: batches, shared key heads."""
    subject = case.subject
    text = case.facts.get("segment_text", "")
    alone = re.search(r"(no|without|un)[- ]?batch|(one|single) (sentence|sequence|text|example)", text, re.IGNORECASE)
    if subject.layout == "nc" and subject.failures and re.search(r"\bbatch|\(B,|\[B,", text) and not alone:
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
