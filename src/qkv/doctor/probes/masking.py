"""What a mask argument does: which tensor it wants, and whether masked keys are really out of sight.

Nothing is assumed of its rank, its type or what True means: all are tried, and where one of them gives the right
numbers (or, where numbers can't be compared, hides what it should), the mask is right; unless the file itself says
that its masks are of another kind.
"""

import contextlib
import difflib
import inspect
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ...i18n import _, quoted
from ..case import Case
from ..mistakes import CATALOGUE
from ..mistakes.masks import CausalLost, OnlyOneMask
from ..mistakes.mistake import At
from ..numbers.guesses import Guess, guesses
from ..numbers.oracle import AttentionForm, Piece
from ..numbers.variants import Variant, singles
from ..numbers.watching import contexts_of, shares_of, watch
from ..source.conventions import is_square, ranks
from ..source.uses import used_elsewhere
from ..subject.errors import UserError
from ..subject.formats import Format, formats
from ..subject.guess import role
from ..subject.made import Made
from ..subject.values import signature
from . import polarity
from .further import empty_row, large_scores, mask_and_window, memory_mask, other_keys, stands_in, two_masks
from .owners import belongs, elsewhere, for_memory, only_together
from .trials import (
    MEMORY,
    Trial,
    View,
    batch_of,
    crossing,
    error_of,
    form_of,
    hidden,
    is_right,
    patterns,
    same_guess,
    spared,
    tensor_for,
    tolerance_of,
    trial_of,
    view,
)

Array = np.ndarray
TINY = 1e-3  # a score that moves by less keeps its weight


def examine_masks(case: Case) -> None:
    """Every mask argument by itself, then two of them together."""
    for parameter in case.subject.masks:
        claimed = len(case.founds)
        try:
            examine_mask(case, parameter)
        except UserError as error:
            _stopped(case, parameter, error)
        if (
            len(case.founds) > claimed
            and role(parameter) not in ("mask", "lengths")
            and not _is_certain(case, parameter)
        ):
            del case.founds[claimed:]  # taken for a mask because nothing else fitted: what it does proves no mistake
            _not_understood(case, parameter)
    known = case.formats
    if len(known) >= 2 and not case.founds:
        two_masks(case, *list(known.items())[:2])
    for window in [p for p, r in case.subject.roles.items() if r == "window"] if not case.founds else ():
        for parameter, format_ in known.items():
            mask_and_window(case, window, parameter, format_)
    case.mask_examples = _givens(case)


def _is_certain(case: Case, parameter: str) -> bool:
    """True if the argument is a mask by what it does, because the caller says so, or because the code says what True means."""
    documented = re.search(rf"\b{re.escape(parameter)}\b[^\n]{{0,40}}\bTrue\s*=", case.says.segment)
    return parameter in case.discovered or parameter in (case.asked.call or {}).values() or documented is not None


def _givens(case: Case) -> list[dict[str, Any]]:
    """One padding mask per mask argument, in the format that was found, for other probes."""
    n, m = case.lengths
    found = []
    for parameter, format_ in case.formats.items():
        own = "memory" in case.subject.inputs and not re.search(MEMORY, parameter.lower()) and not crossing(case)
        keep = patterns(n, n if own else m, len(next(iter(case.inputs.values()))))
        given = next(
            (g for g in (tensor_for(case, format_, keep[name]) for name in ("right", "causal")) if g is not None), None
        )
        if given is not None:
            found.append({parameter: given})
    return found


def examine_mask(case: Case, parameter: str) -> None:
    """Find the format in which it is right; else the mistake that explains what it does."""
    subject = case.subject
    if belongs(case, parameter) or _as_handed(case, parameter):
        return
    if _is_no_tensor(case, parameter):
        case.miss(
            f"mask {parameter}",
            _("the argument {parameter}: it is compared with words or types, so it is not a mask of numbers"),
            parameter=parameter,
        )
        return
    if "memory" not in subject.inputs and "memory?" in subject.roles.values() and re.search(MEMORY, parameter.lower()):
        return
    named = bool(re.search(MEMORY, parameter.lower())) or for_memory(case, parameter)
    memory = "memory" in subject.inputs and (named or crossing(case))
    if memory and case.has("C1"):
        return
    n, m = case.lengths
    pad = bool(re.search(r"pad|key", parameter.lower())) and subject.roles[parameter] == "mask"
    if not memory and (pad or "memory" in subject.inputs) and subject.layout != "ids":
        m = n
    looked = view(case, n, m) or view(case, *case.lengths)
    if looked is None:
        _not_understood(case, parameter)
        return
    n, m = looked.n, looked.m
    numbers = case.match is not None and looked.guess is not None and not (memory and not crossing(case))
    numbers = numbers and looked.guess.k.shape[-2] == m  # type: ignore[union-attr]
    numbers = (
        numbers and subject.layout != "ids"
    )  # what a whole model does to its masks is its own affair: do they hide?
    inner = hidden(case) if not memory else None
    everything = {k: spared(inner, p) for k, p in patterns(n, m, batch_of(looked)).items()}
    base = subject(looked.inputs).output
    hint = case.asked.mask_true_means or polarity.words(case, parameter)
    declared = case.says.mask_rank.get(parameter)
    ran, errors, refused = _try(case, parameter, looked, everything, declared, pad)
    if not ran and m != n and (equal := view(case, n, n)) is not None:  # over its own tokens, not over the keys
        looked, m = equal, n
        everything = {k: spared(inner, p) for k, p in patterns(n, n, batch_of(looked)).items()}
        base = subject(looked.inputs).output
        ran, errors, refused = _try(case, parameter, looked, everything, declared, pad)
    if not ran:
        _never_runs(case, parameter, errors)
        return
    case.checked.append(f"mask {parameter}")
    if all(np.array_equal(np.nan_to_num(t.output), np.nan_to_num(base)) for t in ran):
        if memory and not crossing(case):
            memory_mask(case, parameter, looked)
        elif for_memory(case, parameter) and stands_in(case, parameter, view(case, looked.n, looked.n)):
            pass
        elif _arrives(case, parameter, looked, ran):
            case.add("M11", "rows", parameter=parameter)
        elif (moved := _moved(case, parameter, looked, ran)) is not None and 0 < moved[0] <= TINY:
            case.add("M9", "tiny", parameter=parameter, change=moved[0])
        elif elsewhere(case, parameter, looked, ran[0]):
            case.miss(
                f"mask {parameter}",
                _("the mask {parameter}: it changes another of the outputs than the one that was looked at"),
                parameter=parameter,
            )
        elif not only_together(case, parameter, looked):
            bare = case.says.bare_fill
            if _is_over_queries(parameter) and len(subject.masks) > 1:
                text = _("`{parameter}` changes nothing: a mask over queries hides no key")
                case.remark("M3", text, parameter=parameter)
            elif bare or not _replaced(case, parameter):
                case.add("M2" if bare else "M3", parameter=parameter, tried=len(ran), line=bare)
            else:
                _not_understood(case, parameter)
        return
    if case.match is not None and set(case.match.variant.ids) & {"X1", "X2", "X3", "X6"}:
        return  # with such weights a mask means nothing
    right = [t for t in ran if is_right(case, parameter, t, looked, numbers, memory)]
    if not right:
        _name_it(case, parameter, ran, looked, numbers, hint)
        return
    best = polarity.meant(case, parameter, [t.format for t in right], {t.format.kind for t in ran})
    if best is None:
        return
    case.mask_format = case.mask_format or str(best)
    case.formats[parameter] = best
    # The masks that another file hands over may have another shape than a comment says.
    elsewhere_used = refused is not None and used_elsewhere(case.source, case.subject.name)
    if refused is not None and not elsewhere_used and not _says_otherwise(case, declared):
        case.add("M16", parameter=parameter, error=str(refused), line=refused.line)
        return
    if refused is not None:
        case.miss(
            f"shape {parameter}",
            _("which shape {parameter} is meant to have: a comment gives it {n} axes, and such a mask stops it"),
            parameter=parameter,
            n=declared,
        )
    _more(case, parameter, best, looked, everything, numbers, memory)


def _refuses(case: Case, error: UserError) -> bool:
    """True if a line of the code's own raised the error: a shape that it refuses is none that it promises."""
    line = case.source.line(error.line) if error.line and hasattr(case.source, "line") else ""
    return re.match(r"\s*(raise|assert)\b", line) is not None


def _says_otherwise(case: Case, declared: int | None) -> bool:
    """True if words elsewhere in the file give masks another number of axes: then words prove nothing."""
    return any(one != declared for word in case.subject.masks for one in ranks(case.says.text, word))


def _is_over_queries(parameter: str) -> bool:
    """True if a mask is named as one of queries, such as q_padding_mask."""
    return re.match(r"(q|query|queries)_", parameter.lower()) is not None


def _is_no_tensor(case: Case, parameter: str) -> bool:
    """True if the code compares the argument with words, or asks for another type than an array."""
    name = re.escape(parameter)
    words = rf"""\b{name}\s*(?:==|!=|(?:not\s+)?in)\s*[\[({{]?\s*['"]"""
    types = rf"isinstance\(\s*{name}\s*,\s*(?!(?:torch\.|np\.|numpy\.)?(?:\w*Tensor|ndarray))\w"
    return re.search(f"{words}|{types}", case.says.segment) is not None


def _replaced(case: Case, parameter: str) -> bool:
    """True if the code puts a mask of its own in the argument's place: that one may be meant to count."""
    name = re.escape(parameter)
    return any(
        not re.search(rf"\b{name}\b", match[1])
        for match in re.finditer(rf"^\s*{name}\s*=(?!=)(.*)$", case.says.segment, re.MULTILINE)
    )


def _arrives(case: Case, parameter: str, looked: View, ran: list[Trial]) -> bool:
    """True if the mask reaches the softmax and only moves whole rows of scores, which changes no share."""
    moved = _moved(case, parameter, looked, ran)
    return moved is not None and moved[0] > TINY and moved[1]


def _moved(case: Case, parameter: str, looked: View, ran: list[Trial]) -> tuple[float, bool] | None:
    """By how much the mask moves what the softmax takes, and whether all shares stay as they are."""

    def scores(given: dict[str, Any] | None) -> tuple[Any, Any]:
        seen = case.subject(looked.inputs, given, watch=True).seen
        if seen is None or not (seen.kernels or seen.softmaxes):
            return None, None
        if seen.kernels:
            return seen.kernels[0].get("attn_mask"), seen.kernels[0].get("out")
        return seen.softmaxes[0][0], seen.softmaxes[0][2]

    (one, shares), (two, others) = (
        scores({parameter: tensor_for(case, ran[0].format, k)}) for k in (ran[0].keep, np.ones_like(ran[0].keep))
    )
    if not isinstance(one, torch.Tensor) or not isinstance(two, torch.Tensor) or one.shape != two.shape:
        return None
    if one.dtype is torch.bool:
        change = float(not torch.equal(one, two))
    else:
        differs = one != two  # −inf − −inf is no number
        change = float((one - two)[differs].abs().max()) if differs.any() else 0.0
    same = shares.shape == others.shape and torch.allclose(shares, others, atol=1e-6, equal_nan=True)
    return change, bool(same)


def _as_handed(case: Case, parameter: str) -> bool:
    """The very masks that the file hands over, of its own shape and type: what does the code make of them?"""
    subject = case.subject
    if case.match is None or case.match.variant.ids or subject.layout not in ("bnc", "nbc"):
        return False
    for made in case.handed:
        words = made.words() if made.given == parameter else None
        if words is None:
            continue
        b, m = words.shape
        n = subject.sizes.queries if subject.crosses else m
        inputs = subject.draw(n=n, m=m, batch=b)
        try:
            try:
                watched = watch(subject, inputs)
            except UserError:  # it can't do without one: the same for all
                watched = watch(subject, inputs, {parameter: _typed(case, np.zeros_like(made.values))})
            guess = same_guess(case, guesses(subject, watched, inputs))
            result = subject(inputs, {parameter: _typed(case, made.values)}, watch=True)
        except UserError:
            continue
        if guess is None or guess.k.shape[-2] != m:
            continue
        keep = np.repeat(words[:, None], n, 1)
        looked = View(inputs, n, m, watched, guess)
        contexts = contexts_of(subject, result, inputs, watched)
        given = "keep" if made.kind == "additive" or made.values.flat[0] else "block"
        best: list[tuple[int, float, Variant]] = []
        # A text without padding may have nothing left by a mask turned round: those with both are compared.
        both: Array = np.logical_and(words.any(1), ~words.all(1))
        for items in (both, np.ones(b, bool)):
            if not items.any():
                continue
            some = replace(looked, guess=_some(guess, items))
            theirs = [c[items] for c in contexts]
            form = form_of(case, keep[items], given)
            if error_of(case, some, form, theirs) < tolerance_of(case):
                return False
            at = replace(case.match.at, batch=int(items.sum()), n=n, m=m)
            wrong = list(_of_masks(form, at))
            if b == n == m:
                across = Piece(words[None, None])
                wrong.append(Variant(replace(form, pieces=(*form.pieces[:-1], across)), {"M16": {}}))
            errors = [(error_of(case, some, v.form, theirs), v) for v in wrong]
            best += [(_preference(v, Format()), e, v) for e, v in errors if e < max(1e-6, tolerance_of(case))]
        if best:
            _rank, error, variant = min(best, key=lambda hit: hit[:2])
            if variant.ids == ("M16",):
                case.add("M16", "across", parameter=parameter, batch=b, line=None)
            elif variant.ids == ("M15",) and b == case.heads and _one_text_more_stops(case, made, n, m):
                case.add("M16", "heads", parameter=parameter, batch=b)
            elif variant.ids == ("M1",):
                polarity.blame(case, parameter, "inverted", made, None)
            else:
                _report(case, parameter, variant, Format(), error, False)
            return True
    return False


def _one_text_more_stops(case: Case, made: Made, n: int, m: int) -> bool:
    """Whether a mask of the same shape only runs with as many texts as it came with."""
    more = np.concatenate([made.values, made.values[:1]])
    try:
        case.subject(case.subject.draw(n=n, m=m, batch=len(more)), {made.given: _typed(case, more)})
    except UserError:
        return True
    return False


def _typed(case: Case, values: Array) -> Any:
    """A mask of the file's own in the precision and framework of the subject."""
    values = values.astype(case.subject.dtype) if values.dtype.kind == "f" else values
    return values if case.subject.framework == "numpy" else torch.tensor(values)


def _some(guess: Guess, items: Array) -> Guess:
    return replace(guess, q=guess.q[items], k=guess.k[items], v=guess.v[items])


def _groups(case: Case, parameter: str, declared: int | None, pad: bool) -> list[list[Format]]:
    every = formats(parameter, case.subject.roles[parameter], layout=case.subject.layout)
    if case.subject.roles[parameter] == "lengths":
        return [every]
    if declared is not None:
        return [[f for f in every if len(f.shape) == declared and (f.shape[0] == "b" or f.shape == "nm")], every]
    if pad:
        return [[f for f in every if f.shape == "bm"], [f for f in every if f.shape in ("b11m", "b1m")], every]
    return [every]


def _try(
    case: Case, parameter: str, looked: View, everything: dict[str, Array], declared: int | None, pad: bool
) -> tuple[list[Trial], list[UserError], UserError | None]:
    """Hand masks over, in the formats that the code speaks of first; `refused`: the one that was declared can't be."""
    errors: list[UserError] = []
    refused = None
    for place, group in enumerate(_groups(case, parameter, declared, pad)):
        ran = []
        for format_ in group:
            for name in ("right", "causal"):
                given = tensor_for(case, format_, everything[name])
                if given is None:
                    continue
                try:
                    trial = trial_of(case, parameter, looked, format_, everything[name])
                    if format_.kind == "additive":
                        trial = _finite(case, parameter, looked, trial)
                except UserError as error:
                    errors.append(error)
                    break
                ran.append(trial)
                break
        if ran:
            return ran, errors, refused
        if (
            place == 0
            and declared is not None
            and case.subject.layout == "bnc"  # called as its words have it, heads are its own affair
            and errors
            and not _refuses(case, errors[0])
            and re.search(r"size|shape|broadcast|expand|dimension", str(errors[0]))
        ):
            refused = errors[0]
    return [], errors, None


def _finite(case: Case, parameter: str, looked: View, trial: Trial) -> Trial:
    """An additive mask of a large number, where it does not do what −inf does: in `(1 - mask) * -1e-9` only −inf hides."""
    finite = trial_of(case, parameter, looked, replace(trial.format, means="finite"), trial.keep)
    same = np.isfinite(trial.output).all() and np.allclose(finite.output, trial.output, rtol=0, atol=1e-9)
    if same:
        return trial
    compared = np.array_equal(finite.output, case.subject(looked.inputs).output)  # `mask == -inf`: no number was added
    return trial if compared else finite


def _more(
    case: Case, parameter: str, format_: Format, looked: View, everything: dict[str, Array], numbers: bool, memory: bool
) -> None:
    """Right for one mask: is it for the others, for empty rows, for large scores?"""
    for name in ("right", "left", "causal", "random"):
        if tensor_for(case, format_, everything[name]) is None:
            continue
        try:
            trial = trial_of(case, parameter, looked, format_, everything[name])
        except UserError:
            continue
        if not is_right(case, parameter, trial, looked, numbers, memory):
            _name_it(case, parameter, [trial], looked, numbers, None)
            return
    _without(case, parameter, looked)
    _idle_shapes(case, parameter, format_, looked, everything["right"])
    _square(case, parameter, format_, looked, everything["causal"], numbers, memory)
    other_keys(case, parameter, format_, looked)
    empty_row(case, parameter, format_, looked)
    large_scores(case, parameter, format_, looked, everything["right"], memory)


def _idle_shapes(case: Case, parameter: str, format_: Format, looked: View, keep: Array) -> None:
    """List the shapes of a mask that the code accepts and that change nothing, where another shape is right."""
    unmasked = np.nan_to_num(case.subject(looked.inputs).output)
    for shape in ("bm", "b11m", "bnm", "b1nm", "bhnm"):
        other = replace(format_, shape=shape)
        if other == format_ or tensor_for(case, other, keep) is None:
            continue
        with contextlib.suppress(UserError):
            if np.array_equal(np.nan_to_num(trial_of(case, parameter, looked, other, keep).output), unmasked):
                case.miss(
                    f"mask {parameter}",
                    _("the mask {parameter}: of shape {shape} it is accepted and changes nothing"),
                    parameter=parameter,
                    shape=str(other).split("), ")[0] + ")",
                )
                return


def _without(case: Case, parameter: str, looked: View) -> None:
    """M17: a mask that must be given, and that the code compares with None, may be None."""
    required = signature(case.subject.function).parameters[parameter].default is inspect.Parameter.empty
    if not required or not re.search(rf"\b{re.escape(parameter)}\s+is\s+(not\s+)?None", case.says.segment):
        return
    try:
        case.subject(looked.inputs, {parameter: None})
    except UserError as error:
        case.add("M17", "without", error=str(error), line=error.line)


def _square(
    case: Case, parameter: str, format_: Format, looked: View, keep: Array, numbers: bool, memory: bool
) -> None:
    """Hand over the triangle with the axes (queries, keys), where words promise that shape and another was right."""
    if len(format_.shape) == 2 or not is_square(case.says.text, parameter):
        return
    trial = None
    with contextlib.suppress(UserError):
        trial = trial_of(case, parameter, looked, replace(format_, shape="nm"), keep)
    if trial is None or not is_right(case, parameter, trial, looked, numbers, memory):
        text = _(
            "{parameter} with the shape (queries, keys) that a comment gives it: such a mask stops it or hides other keys"
        )
        case.miss(f"shape {parameter}", text, parameter=parameter)


def _never_runs(case: Case, parameter: str, errors: list[UserError]) -> None:
    """Every mask that was tried raises: a branch that can't work, or a shape that wasn't guessed."""
    broken = [
        e
        for e in errors
        if isinstance(e.error, (NameError, UnboundLocalError)) or _misspelt(e.error) or "ambiguous" in str(e).lower()
    ]
    if broken and "ambiguous" in str(broken[0]).lower() and _takes_a_flag(case, parameter):
        text = _("the argument {parameter}: it takes True or False, so it is not a mask")
        case.miss(f"mask {parameter}", text, parameter=parameter)
    elif broken and len(broken) >= len(errors) / 2:
        case.add("M17", parameter=parameter, error=str(broken[0]), line=broken[0].line)
    elif errors:
        _stopped(case, parameter, errors[0])


def _takes_a_flag(case: Case, parameter: str) -> bool:
    """True if the call runs with True in place of a mask."""
    try:
        case.subject(case.inputs, {parameter: True})
    except UserError:
        return False
    return True


def _misspelt(error: BaseException) -> bool:
    """Whether it asks a tensor for something that tensors have under a name much like it, else a mask may be an object
    of another kind; or nothing at all for anything."""
    if not isinstance(error, AttributeError):
        return False
    if not isinstance(error.obj, torch.Tensor | np.ndarray):
        return True
    return bool(difflib.get_close_matches(error.name or "", dir(error.obj), cutoff=0.75))


def _stopped(case: Case, parameter: str, error: UserError) -> None:
    case.miss(
        f"mask {parameter}",
        _("what the mask {parameter} does: every mask that was tried stopped it, first with {error}"),
        parameter=parameter,
        error=quoted(str(error)),
    )


def _name_it(case: Case, parameter: str, ran: list[Trial], looked: View, numbers: bool, hint: str | None) -> None:
    """No format is right: which mistake gives these numbers?"""
    ran = [trial for trial in ran if trial.format.shape != "bm1"] or ran  # laid over (n, m) scores, that one hides rows
    if numbers and case.match is not None:
        hits: list[tuple[int, float, Variant, Format]] = []
        at = replace(case.match.at, n=looked.n, m=looked.m)
        base = case.subject(looked.inputs).output
        arrives = _arrives(case, parameter, looked, ran)
        for trial in ran:
            moves = not np.array_equal(np.nan_to_num(trial.output), np.nan_to_num(base))  # so it arrives somewhere else
            for variant in _of_masks(
                form_of(case, trial.keep, "block" if trial.format.means == "block" else "keep"), at
            ):
                id_ = variant.ids[0]
                if (
                    (id_ == "M2" and moves and not arrives)
                    or (id_ == "M1" and trial.format.shape != "lengths")
                    or (id_ == "M7" and hint is None and trial.format.kind == "additive")
                ):
                    continue
                error = error_of(case, looked, variant.form, trial.contexts)
                if error < max(1e-6, tolerance_of(case)):
                    hits.append((_preference(variant, trial.format), error, variant, trial.format))
        if hits:
            _rank, error, variant, format_ = min(hits, key=lambda h: (h[0], h[1]))
            if variant.ids == ("M2",) and arrives:
                case.add("M11", "rows", parameter=parameter)
                return
            if _may_be_a_factor(case, parameter, variant):
                case.miss(
                    f"mask {parameter}",
                    _(
                        "what {parameter} is for: it multiplies the scores, which is right for a factor and wrong for a mask"
                    ),
                    parameter=parameter,
                )
            else:
                _report(
                    case,
                    parameter,
                    variant,
                    format_,
                    error,
                    _holds_a_triangle(parameter, [h[3] for h in hits if h[2].ids == variant.ids]),
                )
            return
    if _cuts_shares(case, parameter, ran, looked):
        case.add("X7", "shares", parameter=parameter)
        return
    if parameter in case.discovered:
        return  # of no known name, and of no mask's effect: something else
    if all(np.isnan(t.output).any() for t in ran if t.format.kind != "additive"):
        wrong = "M9" if case.says.fill == float("inf") else "M11"
        case.add(
            wrong,
            sentence=_("with `{parameter}` given, the output has NaN in every shape and type of mask that was tried"),
            parameter=parameter,
            certain=False,
        )
    elif (moved := _moved(case, parameter, looked, ran)) is not None and 0 < moved[0] <= TINY:
        case.add("M9", "tiny", parameter=parameter, change=moved[0])
    elif suspect := case.says.mask_suspect:
        case.add(
            suspect,
            sentence=_(
                "in no shape and type that was tried does `{parameter}` hide the keys it should: changing them changes the output"
            ),
            parameter=parameter,
            certain=False,
        )
    else:
        _not_understood(case, parameter)


def _may_be_a_factor(case: Case, parameter: str, variant: Variant) -> bool:
    """True if an argument multiplies scores or weights beside a mask: that one is named like a mask, or is shown to work.

    A factor of 0 gives the numbers of a mask that is filled with 0, and so does a mask of queries after the softmax.
    """
    named = [other for other in case.subject.masks if other not in case.discovered]
    if parameter in case.discovered:
        return bool(named) and variant.ids[0] in ("M7", "M8")
    return bool(set(case.formats) - {parameter}) and variant.ids[0] == "X7"


def _cuts_shares(case: Case, parameter: str, ran: list[Trial], looked: View) -> bool:
    """X7: the values are multiplied with the very shares that they have without a mask, the hidden ones set to 0."""
    for trial in ran:
        keep = trial.keep[0] if case.subject.layout == "nc" else trial.keep[:, None]
        free, masked = (
            shares_of(case.subject(looked.inputs, {parameter: given}, watch=True), looked.n, looked.m)
            for given in (tensor_for(case, trial.format, k) for k in (np.ones_like(trial.keep), trial.keep))
        )
        for whole, cut in zip(free, masked, strict=False):
            keeps = keep if whole.ndim == 4 or keep.ndim == 2 else keep[:, 0]
            alike = whole.shape == cut.shape and whole.ndim <= 4 and len(keeps) in (1, len(whole))
            if alike and np.allclose(whole.sum(-1), 1) and not keeps.all():
                if np.allclose(cut, whole * keeps, atol=1e-12):
                    return True
    return False


def _not_understood(case: Case, parameter: str) -> None:
    case.miss(
        f"mask {parameter}",
        _(
            "what the mask {parameter} does: of the masks that were tried none hides what it should, and no known mistake gives these numbers; say what its True means with --mask-true-means"
        ),
        parameter=parameter,
    )


def _of_masks(form: AttentionForm, at: At) -> Iterator[Variant]:
    """The forms with one mistake in what is done with a mask; the others leave the masks as they are."""
    return (
        v for v in singles(form, at) if any(a is not b for a, b in itertools.zip_longest(v.form.pieces, form.pieces))
    )


def _preference(variant: Variant, format_: Format) -> int:
    """Of several that give the same numbers: what explains most, with the plainest mask."""
    return CATALOGUE[variant.ids[0]].explains * 10 + (format_.kind != "bool") + (format_.means != "keep") * 2


def _holds_a_triangle(parameter: str, formats: list[Format]) -> bool:
    """True if the mask has a row for each query in one of the formats that work: the caller may have put the triangle into
    it, as transformers does."""
    whole = any({"n", "m"} <= set(format_.shape) for format_ in formats)
    return whole and not re.search(r"pad|key|length|valid", parameter.lower())


def _report(
    case: Case, parameter: str, variant: Variant, format_: Format, error: float, holds_a_triangle: bool
) -> None:
    id_ = variant.ids[0]
    if id_ == "M2":
        bare = case.says.bare_fill
        case.add("M2" if bare else "M3", parameter=parameter, tried=1, line=bare)
    elif id_ == "M5" and "memory" in case.subject.inputs:
        _not_understood(case, parameter)  # whose mask it is, of the text or of the memory, isn't proved
    elif id_ == "M5":
        kept_own = variant.told["M5"]["kept"] == 0  # the code's own triangle is what stayed
        if not kept_own and (holds_a_triangle or _default_triangle(case, parameter)):
            case.defaults.append(parameter)
            return  # `if mask is None: mask = triangle`: whoever hands a mask over says all of it
        one_or_other = re.search(
            r"is_causal\s*=|if .*mask\w* is None|is not None:\s+\w+ = (?!.*(fill|where))|else|elif", case.says.segment
        )
        case.add(
            "M5" if kept_own or not one_or_other else "M6",
            sentence=(OnlyOneMask if kept_own else CausalLost).evidence[""],
            parameter=parameter,
            error=error,
        )
    else:
        if id_ == "M8" and case.says.fill not in (None, 0.0):
            id_ = "M9"
        case.add(id_, parameter=parameter, error=error)


def _default_triangle(case: Case, parameter: str) -> bool:
    """Whether the code's own triangle only stands in for a mask that isn't given, and the mask could say as much."""
    text = case.says.segment
    padding = re.search(r"pad|key|length", parameter.lower()) or case.says.mask_rank.get(parameter) == 2
    default = re.search(rf"if {re.escape(parameter)} is None:\s*\n?\s*(self\.)?{re.escape(parameter)}\s*=", text)
    return bool(default) and not padding
