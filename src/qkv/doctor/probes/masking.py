"""What a mask argument does: which tensor it wants, and whether masked keys are really out of sight.

Nothing is assumed of its rank, its type or what True means: all are tried, and where one of them gives the right
numbers (or, where numbers can't be compared, hides what it should), the mask is right; unless the file itself says
that its masks are of another kind.
"""

import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ...words import _, quoted
from ..case import Case
from ..mistakes import CATALOGUE
from ..mistakes.masks import CausalLost, OnlyOneMask
from ..mistakes.mistake import At, triangle
from ..numbers.match import Guess, Matcher, Watched, contexts_of, guesses, poked, watch
from ..numbers.oracle import Form, Piece
from ..numbers.variants import Variant, singles
from ..subject.formats import Format, formats
from ..subject.subject import Subject, UserError, signature
from . import polarity

Array = np.ndarray
MEMORY = r"src|source|mem|enc|cross|context"
EMPTY_ROWS = {
    "nan": _("a row that may look at nothing gives NaN (−inf everywhere); make sure that no text is all padding"),
    "uniform": _("a row that may look at nothing looks at everything alike (a finite fill value)"),
    "zero": _("a row that may look at nothing gives 0"),
}


@dataclass
class View:
    """Inputs of certain lengths, looked into once."""

    inputs: dict[str, Array]
    n: int
    m: int
    watched: Watched | None
    guess: Guess | None


@dataclass
class Trial:
    """One mask handed over, and what came."""

    format: Format
    keep: Array
    contexts: list[Array]
    output: Array


def view(case: Case, n: int, m: int) -> View | None:
    """The subject at these lengths, with the same guess of who is q, k, v."""
    if (n, m) not in case.views:
        case.views[n, m] = _view(case, n, m)
    return case.views[n, m]


def _view(case: Case, n: int, m: int) -> View | None:
    subject = case.subject
    if case.lengths == (n, m):
        return View(case.inputs, n, m, case.watched, case.match.guess if case.match else None)
    try:
        inputs = subject.draw(n=n, m=m)
        watched = watch(subject, inputs)
    except UserError:
        return None
    return View(inputs, n, m, watched, _same_guess(case, guesses(subject, watched, inputs)))


def _same_guess(case: Case, again: list[Guess]) -> Guess | None:
    """Of guesses at other lengths the one that matched."""
    place = next((i for i, g in enumerate(case.guesses) if case.match and g is case.match.guess), None)
    return again[place] if place is not None and place < len(again) else None


def patterns(n: int, m: int, batch: int) -> dict[str, Array]:
    """Keep-masks (B, N, M) worth trying: texts of different lengths, padded right and left, the triangle, any."""
    lengths = [max(1, m - (2 * b + 2) % m) for b in range(batch)]  # the first text is padded too
    columns = np.arange(m)
    right = np.stack([columns < length for length in lengths])
    random = np.random.default_rng(3).random((batch, n, m)) < 0.6
    random |= np.arange(n)[:, None] % m == columns[None]
    return {
        "right": np.repeat(right[:, None], n, 1),
        "left": np.repeat(right[:, None, ::-1], n, 1),
        "causal": np.repeat(triangle(n, m, "causal")[None], batch, 0),
        "random": random,
    }


def spared(inner: Array | None, keep: Array) -> Array:
    """Rows that a triangle of the code's own and the mask together leave empty stay whole: that is another question."""
    if inner is None:
        return keep
    both = inner[None] & keep
    return np.where(both.any(-1, keepdims=True), keep, True)


def examine_masks(case: Case) -> None:
    """Every mask argument by itself, then two of them together."""
    for parameter in case.subject.masks:
        try:
            examine_mask(case, parameter)
        except UserError as error:
            _stopped(case, parameter, error)
    known = case.formats
    if len(known) >= 2 and not case.founds:
        _both(case, *list(known.items())[:2])
    case.mask_examples = _givens(case)


def _givens(case: Case) -> list[dict[str, Any]]:
    """One padding mask per mask argument, in the format that was found, for other probes."""
    n, m = case.lengths
    found = []
    for parameter, format_ in case.formats.items():
        own = "memory" in case.subject.inputs and not re.search(MEMORY, parameter.lower()) and not _crossing(case)
        keep = patterns(n, n if own else m, len(next(iter(case.inputs.values()))))
        given = next(
            (g for g in (_encode(case, format_, keep[name]) for name in ("right", "causal")) if g is not None), None
        )
        if given is not None:
            found.append({parameter: given})
    return found


def hidden(case: Case) -> Array | None:
    """(N, N): what the code itself allows, where that isn't everything."""
    seen = case.support
    if seen is None or seen.shape[0] != seen.shape[1] or seen.all() or not seen.any(-1).all():
        return None
    return seen


def discovered(subject: Subject) -> list[str]:
    """Arguments of no known name that are masks by what they do: left out by default, and with a mask another output."""
    parameters = signature(subject.function).parameters
    strange = [
        p for p, r in subject.roles.items() if r == "" and parameters[p].default is None and p not in subject.fixed
    ]
    found = []
    for parameter in strange if subject.layout in ("bnc", "nbc", "ids") and not subject.crosses else ():
        inputs = subject.draw()
        base = subject(inputs).output
        keep = patterns(subject.sizes.queries, subject.sizes.queries, subject.sizes.batch)["right"]
        for format_ in (Format("bm"), Format("bm", "int"), Format("bnm"), Format("b1nm")):
            given = format_.encode(keep, subject.sizes.heads, subject.framework, subject.dtype)
            try:
                if not np.array_equal(subject(inputs, {parameter: given}).output, base, equal_nan=True):
                    found.append(parameter)
                    break
            except UserError:
                continue
    return found


def examine_mask(case: Case, parameter: str) -> None:
    """Find the format in which it is right; else the mistake that explains what it does."""
    subject = case.subject
    if _as_handed(case, parameter):
        return
    if "memory" not in subject.inputs and "memory?" in subject.roles.values() and re.search(MEMORY, parameter.lower()):
        return
    memory = "memory" in subject.inputs and (bool(re.search(MEMORY, parameter.lower())) or _crossing(case))
    if memory and case.has("C1"):
        return
    n, m = case.lengths
    pad = bool(re.search(r"pad|key", parameter.lower())) and subject.roles[parameter] == "mask"
    if not memory and (pad or "memory" in subject.inputs) and subject.layout != "ids":
        m = n
    looked = view(case, n, m) or view(case, *case.lengths)
    if looked is None:
        case.miss(
            f"mask {parameter}",
            _(
                "what the mask {parameter} does: of the masks that were tried none hides what it should, and no known mistake gives these numbers; say what its True means with --mask-true-means"
            ),
            parameter=parameter,
        )
        return
    n, m = looked.n, looked.m
    numbers = case.match is not None and looked.guess is not None and not (memory and not _crossing(case))
    numbers = numbers and looked.guess.k.shape[-2] == m  # type: ignore[union-attr]
    numbers = (
        numbers and subject.layout != "ids"
    )  # what a whole model does to its masks is its own affair: do they hide?
    inner = hidden(case) if not memory else None
    everything = {k: spared(inner, p) for k, p in patterns(n, m, _batch(looked)).items()}
    base = subject(looked.inputs).output
    hint = case.asked.mask_true_means or polarity.words(case, parameter)
    declared = case.says.mask_rank.get(parameter)
    ran, errors, refused = _try(case, parameter, looked, everything, declared, pad)
    if not ran and m != n and (equal := view(case, n, n)) is not None:  # over its own tokens, not over the keys
        looked, m = equal, n
        everything = {k: spared(inner, p) for k, p in patterns(n, n, _batch(looked)).items()}
        base = subject(looked.inputs).output
        ran, errors, refused = _try(case, parameter, looked, everything, declared, pad)
    if not ran:
        _never_runs(case, parameter, errors)
        return
    case.checked.append(f"mask {parameter}")
    if all(np.array_equal(np.nan_to_num(t.output), np.nan_to_num(base)) for t in ran):
        if memory and not _crossing(case):
            _memory_mask(case, parameter, looked, hint)
        elif _arrives(case, parameter, looked, ran):
            case.add("M11", "rows", parameter=parameter)
        elif not _only_together(case, parameter, looked, everything["right"], base):
            bare = case.says.bare_fill
            case.add("M2" if bare else "M3", parameter=parameter, tried=len(ran), line=bare)
        return
    if case.match is not None and set(case.match.variant.ids) & {"X1", "X2", "X3", "X6"}:
        return  # with such weights a mask means nothing
    right = [t for t in ran if _is_right(case, parameter, t, looked, numbers, memory)]
    if not right:
        _name_it(case, parameter, ran, looked, numbers, hint)
        return
    best = polarity.meant(case, parameter, [t.format for t in right], {t.format.kind for t in ran})
    if best is None:
        return
    case.mask_format = case.mask_format or str(best)
    case.formats[parameter] = best
    if refused is not None:
        case.add("M16", parameter=parameter, error=str(refused), line=refused.line)
        return
    _more(case, parameter, best, looked, everything, numbers, memory)


def _arrives(case: Case, parameter: str, looked: View, ran: list[Trial]) -> bool:
    """Whether the mask does reach the softmax, and only moves whole rows of scores, which a softmax doesn't see."""

    def scores(given: dict[str, Any] | None) -> Any:
        seen = case.subject(looked.inputs, given, watch=True).seen
        if seen is None or not (seen.kernels or seen.softmaxes):
            return None
        return seen.kernels[0].get("attn_mask") if seen.kernels else seen.softmaxes[0][0]

    one, two = (scores({parameter: _encode(case, ran[0].format, k)}) for k in (ran[0].keep, np.ones_like(ran[0].keep)))
    return isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor) and not torch.equal(one, two)


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
            guess = _same_guess(case, guesses(subject, watched, inputs))
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
            form = _form(case, keep[items], given)
            if _error(case, some, form, theirs) < _tolerance(case):
                return False
            at = replace(case.match.at, batch=int(items.sum()), n=n, m=m)
            wrong = list(_of_masks(form, at))
            if b == n == m:
                across = Piece(words[None, None])
                wrong.append(Variant(replace(form, pieces=(*form.pieces[:-1], across)), {"M16": {}}))
            errors = [(_error(case, some, v.form, theirs), v) for v in wrong]
            best += [(_preference(v, Format()), e, v) for e, v in errors if e < max(1e-6, _tolerance(case))]
        if best:
            _rank, error, variant = min(best, key=lambda hit: hit[:2])
            if variant.ids == ("M16",):
                case.add("M16", "across", parameter=parameter, batch=b, line=None)
            elif variant.ids == ("M1",):
                polarity.blame(case, parameter, "inverted", made, None)
            else:
                _report(case, parameter, variant, Format(), error)
            return True
    return False


def _typed(case: Case, values: Array) -> Any:
    """A mask of the file's own in the precision and framework of the subject."""
    values = values.astype(case.subject.dtype) if values.dtype.kind == "f" else values
    return values if case.subject.framework == "numpy" else torch.tensor(values)


def _some(guess: Guess, items: Array) -> Guess:
    return replace(guess, q=guess.q[items], k=guess.k[items], v=guess.v[items])


def _only_together(case: Case, parameter: str, looked: View, keep: Array, base: Array) -> bool:
    """Whether a mask works only beside another one: query_mask and key_mask."""
    others = [p for p in case.subject.masks if p != parameter]
    for other, format_ in itertools.product(others, formats(parameter, "mask")):
        given = {p: _encode(case, format_, keep if p == parameter else np.ones_like(keep)) for p in (parameter, other)}
        if all(g is not None for g in given.values()):
            try:
                if not np.array_equal(np.nan_to_num(case.subject(looked.inputs, given).output), np.nan_to_num(base)):
                    return True
            except UserError:
                continue
    return False


def _batch(looked: View) -> int:
    return len(next(iter(looked.inputs.values())))


def _crossing(case: Case) -> bool:
    """Whether the attention that was watched has its keys from the memory."""
    return (
        case.match is None
        or "x" not in case.subject.inputs
        or case.match.guess.k.shape[-2] == case.lengths[1] != case.lengths[0]
    )


def _groups(case: Case, parameter: str, declared: int | None, pad: bool) -> list[list[Format]]:
    every = formats(parameter, case.subject.roles[parameter])
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
                given = _encode(case, format_, everything[name])
                if given is None:
                    continue
                try:
                    trial = _trial(case, parameter, looked, format_, everything[name])
                    if format_.kind == "additive" and not np.isfinite(trial.output).all():
                        trial = _trial(case, parameter, looked, replace(format_, means="finite"), everything[name])
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
            and re.search(r"size|shape|broadcast|expand|dimension", str(errors[0]))
        ):
            refused = errors[0]
    return [], errors, None


def _trial(case: Case, parameter: str, looked: View, format_: Format, keep: Array) -> Trial:
    result = case.subject(looked.inputs, {parameter: _encode(case, format_, keep)}, watch=True)
    contexts = contexts_of(case.subject, result, looked.inputs, looked.watched) if looked.watched else [result.output]
    return Trial(format_, keep, contexts, result.output)


def _encode(case: Case, format_: Format, keep: Array) -> Any:
    subject = case.subject
    return format_.encode(keep, case.heads, subject.framework, subject.dtype, subject.layout == "nc")


def _form(case: Case, keep: Array, given: str = "keep", how: str = "fill") -> Form:
    assert case.match is not None
    form = case.match.variant.form
    own = Piece(keep[:1, None] if case.subject.layout == "nc" else keep[:, None], how, given=given)
    n, m = keep.shape[-2:]
    inner = tuple(p for p in form.pieces if p.keep.shape[-2:] in ((n, m), (1, m)))
    return replace(form, pieces=(*inner, own))


def _error(case: Case, looked: View, form: Form, contexts: list[Array]) -> float:
    assert looked.watched is not None and looked.guess is not None
    return Matcher(case.subject, replace(looked.watched, contexts=contexts)).error(looked.guess, form)[0]


def _tolerance(case: Case) -> float:
    assert case.watched is not None and case.match is not None
    return max(Matcher(case.subject, case.watched).tolerance, case.match.error * 10)


def _is_right(case: Case, parameter: str, trial: Trial, looked: View, numbers: bool, memory: bool) -> bool:
    if numbers:
        return _error(case, looked, _form(case, trial.keep), trial.contexts) < _tolerance(case)
    return hides(case, parameter, trial, looked, memory)


def hides(case: Case, parameter: str, trial: Trial, looked: View, memory: bool) -> bool:
    """Changing what is masked changes no other row; what is kept is seen."""
    subject, keep, output = case.subject, trial.keep, trial.output
    if not np.isfinite(output).all():
        return False
    roles = (
        ["memory"]
        if memory and "memory" in subject.inputs
        else [r for r in subject.inputs if r in ("k", "v", "memory")] or subject.inputs[:1]
    )
    own = roles == subject.inputs[:1] and "k" not in roles
    given = {parameter: _encode(case, trial.format, keep)}
    size = np.abs(output).max() or 1.0
    item, place = _masked_place(keep)
    moved = subject(poked(subject, looked.inputs, place, item, roles), given).output
    change = _rows(np.abs(moved - output)[item], subject.layout)
    blind = ~keep[item][:, place]
    if own and place < len(blind):
        blind[place] = False
    if not blind.any() or change[blind].max() > 1e-9 * size:
        return False
    seen = int(keep[item].sum(0).argmax())
    other = subject(poked(subject, looked.inputs, seen, item, roles), given).output
    rows = _rows(np.abs(other - output)[item], subject.layout)
    if own and seen < len(rows):
        rows[seen] = 0
    return bool(rows.max() > 1e-9 * size)


def _masked_place(keep: Array) -> tuple[int, int]:
    """An item and a key in it that nobody may see, else that as few rows as possible may."""
    for item in range(len(keep) - 1, -1, -1):
        gone = np.flatnonzero(~keep[item].any(0))
        if len(gone):
            return item, int(gone[0])
    fewest = int(keep.sum(1).argmin())
    return fewest // keep.shape[-1], fewest % keep.shape[-1]


def _rows(change: Array, layout: str) -> Array:
    """(N,): the largest change of each query's output."""
    return change.max((0, -1)) if change.ndim == 3 else change.max(-1)


def _more(
    case: Case, parameter: str, format_: Format, looked: View, everything: dict[str, Array], numbers: bool, memory: bool
) -> None:
    """Right for one mask: is it for the others, for empty rows, for large scores?"""
    for name in ("right", "left", "causal", "random"):
        if _encode(case, format_, everything[name]) is None:
            continue
        try:
            trial = _trial(case, parameter, looked, format_, everything[name])
        except UserError:
            continue
        if not _is_right(case, parameter, trial, looked, numbers, memory):
            _name_it(case, parameter, [trial], looked, numbers, None)
            return
    _other_keys(case, parameter, format_, looked)
    _empty_row(case, parameter, format_, looked)
    _large_scores(case, parameter, format_, looked, everything["right"], memory)


def _other_keys(case: Case, parameter: str, format_: Format, looked: View) -> None:
    """C3: keys of another number run without the mask, and stop with it."""
    n, m = case.lengths
    if looked.n != looked.m or n == m or "k" not in case.subject.inputs:
        return
    given = _encode(case, format_, patterns(n, m, _batch(looked))["right"])
    if given is None:
        return
    try:
        case.subject(case.inputs, {parameter: given})
    except UserError as error:
        if re.search(r"size|shape|broadcast|expand|match", str(error)):
            case.add("C3", n=n, m=m, error=str(error), line=error.line)


def _empty_row(case: Case, parameter: str, format_: Format, looked: View) -> None:
    """M18: what a row gives that may look at nothing; reported, never counted as a mistake."""
    keep = np.ones((_batch(looked), looked.n, looked.m), bool)
    keep[0] = False
    given = _encode(case, format_, keep)
    if given is None or format_.shape == "lengths":
        return
    try:
        result = case.subject(looked.inputs, {parameter: given}, watch=True)
    except UserError:
        return
    row = (contexts_of(case.subject, result, looked.inputs, looked.watched) if looked.watched else [result.output])[0][
        0
    ]
    what = "nan" if np.isnan(row).any() else "zero" if not row.any() else "uniform"
    case.remark("M18", EMPTY_ROWS[what])


def _large_scores(case: Case, parameter: str, format_: Format, looked: View, keep: Array, memory: bool) -> None:
    """M19: a fill that is not low enough when scores are large."""
    subject = case.subject
    fill = case.says.fill
    if case.says.text and (fill is None or not -1e6 < fill < 0):
        return  # no such number is written there
    encoded = _encode(case, format_, keep)
    if (
        subject.layout == "ids"
        or encoded is None
        or format_.kind == "additive"
        or (case.match is not None and case.match.variant.ids)
    ):
        return
    inputs = {r: a * 60 for r, a in looked.inputs.items()}
    roles = [r for r in subject.inputs if r in ("k", "v") or (r == "memory" and memory)] or subject.inputs[:1]
    item = int(np.argmin(keep[:, 0].sum(-1)))  # the fewer keys are left, the lower the best score may be
    gone = np.flatnonzero(~keep[item].any(0))
    if not len(gone):
        return
    place = int(gone[0])
    louder = {r: a.copy() for r, a in inputs.items()}
    for r in roles:
        louder[r][item, ..., place, :] *= -3
    try:
        base, moved = (subject(i, {parameter: encoded}).output for i in (inputs, louder))
    except UserError:
        return
    if not (np.isfinite(base).all() and np.isfinite(moved).all()):
        return
    change = _rows(np.abs(moved - base)[item], subject.layout)
    if roles == subject.inputs[:1] and place < len(change):
        change[place] = 0
    relative = float(change.max() / (np.abs(base[item]).max() or 1))
    if relative > 1e-6:
        case.add("M19", change=relative)


def _never_runs(case: Case, parameter: str, errors: list[UserError]) -> None:
    """Every mask that was tried raises: a branch that can't work, or a shape that wasn't guessed."""
    broken = [
        e
        for e in errors
        if isinstance(e.error, (NameError, UnboundLocalError)) or _misspelt(e.error) or "ambiguous" in str(e).lower()
    ]
    if broken and len(broken) >= len(errors) / 2:
        case.add("M17", parameter=parameter, error=str(broken[0]), line=broken[0].line)
    elif errors:
        _stopped(case, parameter, errors[0])


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
    if numbers and case.match is not None:
        hits: list[tuple[int, float, Variant, Format]] = []
        at = replace(case.match.at, n=looked.n, m=looked.m)
        for trial in ran:
            for variant in _of_masks(_form(case, trial.keep, "block" if trial.format.means == "block" else "keep"), at):
                id_ = variant.ids[0]
                if (id_ == "M1" and trial.format.shape != "lengths") or (
                    id_ == "M7" and hint is None and trial.format.kind == "additive"
                ):
                    continue
                error = _error(case, looked, variant.form, trial.contexts)
                if error < max(1e-6, _tolerance(case)):
                    hits.append((_preference(variant, trial.format), error, variant, trial.format))
        if hits:
            _rank, error, variant, format_ = min(hits, key=lambda h: (h[0], h[1]))
            if variant.ids == ("M2",) and _arrives(case, parameter, looked, ran):
                case.add("M11", "rows", parameter=parameter)
                return
            _report(case, parameter, variant, format_, error)
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
        case.miss(
            f"mask {parameter}",
            _(
                "what the mask {parameter} does: of the masks that were tried none hides what it should, and no known mistake gives these numbers; say what its True means with --mask-true-means"
            ),
            parameter=parameter,
        )


def _of_masks(form: Form, at: At) -> Iterator[Variant]:
    """The forms with one mistake in what is done with a mask; the others leave the masks as they are."""
    return (
        v for v in singles(form, at) if any(a is not b for a, b in itertools.zip_longest(v.form.pieces, form.pieces))
    )


def _preference(variant: Variant, format_: Format) -> int:
    """Of several that give the same numbers: what explains most, with the plainest mask."""
    return CATALOGUE[variant.ids[0]].explains * 10 + (format_.kind != "bool") + (format_.means != "keep") * 2


def _report(case: Case, parameter: str, variant: Variant, format_: Format, error: float) -> None:
    id_ = variant.ids[0]
    if id_ == "M2":
        bare = case.says.bare_fill
        case.add("M2" if bare else "M3", parameter=parameter, tried=1, line=bare)
    elif id_ == "M5":
        kept_own = variant.told["M5"]["kept"] == 0  # the code's own triangle is what stayed
        if not kept_own and _default_triangle(case, parameter):
            return  # `if mask is None: mask = triangle`: whoever hands a mask over says all of it
        one_or_other = re.search(
            r"is_causal\s*=|if .*mask\w* is None|is not None:\s+\w+ = (?!.*(fill|where))|else|elif",
            case.says.segment,
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


def _both(case: Case, one: tuple[str, Format], two: tuple[str, Format]) -> None:
    """M5: given two masks, both hide."""
    n = case.lengths[0]
    looked = view(case, n, n) if "memory" not in case.subject.inputs else None
    if looked is None or looked.guess is None or case.match is None:
        return
    case.checked.append("masks together")
    everything = patterns(looked.n, looked.m, _batch(looked))
    for first, second in (("causal", "right"), ("right", "causal")):
        keeps = everything[first], everything[second]
        given = {p: _encode(case, f, k) for (p, f), k in zip((one, two), keeps, strict=True)}
        if any(g is None for g in given.values()):
            continue
        try:
            result = case.subject(looked.inputs, given, watch=True)
        except UserError as error:
            case.stopped("masks together", error)
            return
        contexts = contexts_of(case.subject, result, looked.inputs, looked.watched)  # type: ignore[arg-type]
        together = _form(case, keeps[0] & keeps[1])
        if _error(case, looked, together, contexts) < _tolerance(case):
            return
        for index, (parameter, _mask) in enumerate((one, two)):
            alone = _error(case, looked, _form(case, keeps[1 - index]), contexts)
            if alone < _tolerance(case):
                case.add("M5", "two", parameter=parameter, other=(two, one)[index][0], error=alone)
                return


def _targets_padding(case: Case, parameter: str, equal: View) -> bool:
    """C2 in a whole model: where the target has padding, the memory is hidden."""
    subject, last = case.subject, equal.n - 1
    for pad in range(4):
        inputs = {r: a.copy() for r, a in equal.inputs.items()}
        inputs[subject.inputs[0]][0, last] = pad
        change = [
            float(np.abs(subject(poked(subject, i, last, 0, ["memory"])).output - subject(i).output)[0, :last].max())
            for i in (equal.inputs, inputs)
        ]
        if change[0] > 1e-6 and change[1] < 1e-12:
            other = next(p for p, r in subject.roles.items() if r == subject.inputs[0])
            case.add("C2", parameter=parameter, other=other, change=change[0])
            return True
    return False


def _memory_mask(case: Case, parameter: str, looked: View, hint: str | None) -> None:
    """C2: the memory's own mask does nothing; does the target's stand in its place?"""
    others = [p for p in case.subject.masks if p != parameter]
    equal = view(case, looked.n, looked.n)
    if equal is None:
        case.add("M3", parameter=parameter, tried=1)
        return
    if case.subject.layout == "ids" and _targets_padding(case, parameter, equal):
        return
    for other in others:
        keep = patterns(looked.n, looked.n, _batch(looked))["right"]
        for format_ in formats(other, "mask"):
            given = _encode(case, format_, keep)
            if given is None:
                continue
            try:
                output = case.subject(equal.inputs, {other: given}).output
                item, place = _masked_place(keep)
                moved = case.subject(poked(case.subject, equal.inputs, place, item, ["memory"]), {other: given}).output
                free = case.subject(poked(case.subject, equal.inputs, place, item, ["memory"])).output
            except UserError:
                continue
            plain = case.subject(equal.inputs).output
            if np.abs(free - plain).max() > 1e-9 and np.abs(moved - output).max() < 1e-12:
                unmasked = float(np.abs(free - plain).max() / (np.abs(plain).max() or 1))
                case.add("C2", parameter=parameter, other=other, change=unmasked)
                return
    case.add("M3", parameter=parameter, tried=1)
