"""Number for number: the form of attention that gives the user's numbers, right or with a known mistake."""

import copy
import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from ...i18n import _
from ..case import Case
from ..mistakes.mistake import At
from ..numbers.guesses import guesses, head_counts, laid, miscut
from ..numbers.match import Match, Matcher, bases
from ..numbers.oracle import AttentionForm, Piece
from ..numbers.variants import Variant, causal
from ..numbers.watching import mixed_of, watch
from ..source.uses import scaled_by_caller
from ..subject.errors import UserError
from ..subject.subject import Subject
from . import block
from .structure import lengths, sees_only_future, support

FEW = r"group|kv_?head|n_?rep|gqa|h_?kv|hk\b"


def few_keys(case: Case) -> None:
    """A function of (B, H, N, D) that also takes fewer key heads: shared as they should be?"""
    subject, text = case.subject, case.says.segment.lower()
    if subject.layout != "bhnd" or not {"q", "k", "v"} <= set(subject.inputs) or not re.search(FEW, text):
        return
    few = copy.copy(case.subject)
    few.widths = {**few.widths, "kv_heads": few.sizes.kv_heads}
    inputs = few.draw()
    try:
        watched = watch(few, inputs)
    except UserError:
        return
    match = Matcher(few, watched).best(guesses(few, watched, inputs), (), faults=1)
    if match is not None and match.variant.ids == ("H8",):
        case.match = match
        _name(case, "H8", {}, match.error)


def _tame(case: Case) -> None:
    """Weights drawn too large make every softmax one-hot, and then no scale is wrong: smaller inputs, within reason."""
    subject = case.subject
    for _attempt in range(3):
        try:
            case.watched = watch(subject, case.inputs)
        except UserError as error:
            case.stopped("numbers", error)
            return
        projected = case.watched.projected
        if len(projected) == 0 or subject.layout == "ids":
            return
        spread = float(np.std(projected[0].features) * np.std(projected[min(1, len(projected) - 1)].features))
        if not 4 <= spread < np.inf:  # NaN too: inputs stay numbers
            return
        subject.gain *= (2 / spread) ** 0.5
        lengths(case)


def compare(case: Case) -> None:
    """Compare number for number; keep the match, note its mistakes."""
    _tame(case)
    subject, inputs = case.subject, case.inputs
    if case.watched is None:
        return
    x = inputs.get("x", inputs.get("q"))
    output = case.watched.output
    if x is not None and x.dtype.kind == "f" and x.shape == output.shape and case.watched.after:
        case.wiring = block.parts_of(case)
        case.residual = block.has_residual(case.wiring)
    case.guesses = guesses(subject, case.watched, inputs)
    n, m = case.lengths
    seen = case.support
    pieces: tuple[Piece, ...] = ()
    also: tuple[tuple[Piece, ...], ...] = ((causal(n, m),),)
    if seen is not None and seen.shape == (n, m) and not seen.all() and seen.any(-1).all():
        pieces, also = (Piece(seen[None, None], inner=True),), ((causal(n, m),), ())
    matcher = Matcher(subject, case.watched)
    match = matcher.best(case.guesses, pieces, also=also)
    if match is not None and set(match.variant.ids) <= {"S1", "S2", "S3", "S4"} and _passed(case, match):
        match = replace(match, variant=Variant(match.variant.form))  # the caller's scale, and the caller was us
    if match is None:
        match = _by_scale(case, matcher, (pieces, *also))
    case.match = match
    if match is None and subject.layout == "bhnd" and _lengths_before_heads(case):
        return compare(case)
    if (
        match is not None
        and match.variant.ids == ("S2",)
        and re.search(r"T5", f"{subject.name} {type(subject.owner).__name__}")
    ):
        case.remark("S2", _("the scores are not scaled: T5 is defined so, its weights are drawn for it"))
        case.match = match = replace(match, variant=Variant(match.variant.form))
    if match is not None and match.variant.ids == ("S2",) and _is_dot_score(subject):
        case.remark("S2", _("the scores are not scaled: Luong's dot attention, without weights, is defined so"))
        case.match = match = replace(match, variant=Variant(match.variant.form))
    if match is not None and match.variant.ids == ("S2",) and _scaled_weights(case, match):
        case.remark(
            "S2",
            _(
                "the scores are not scaled, but W_Q was drawn smaller by 1/√{head}: the scale is in the weights from the start"
            ),
            head=match.at.head,
        )
        case.match = match = replace(match, variant=Variant(match.variant.form))
    if match is not None and match.variant.ids == ("S2",) and not subject.watched_weights():
        if where := scaled_by_caller(case.source, subject.name):
            text = _("the scale: the scores are not scaled here, and {where}, which calls it, may scale q before")
            case.miss("scale", text, where=where)
            case.match = match = replace(match, variant=Variant(match.variant.form))
    if match is not None and match.variant.ids == ("H4",) and _attends_again(case):
        text = _(
            "the number of heads: the attention that was compared has one, and another one of the same call may have more"
        )
        case.miss("heads", text)
        case.match = match = replace(match, variant=Variant(match.variant.form))
    if match is None:
        _miscut(case, matcher, (pieces, *also))
        match = case.match
    if match is None and (inner := mixed_of(subject, case.watched.result, inputs)):
        found = Matcher(subject, replace(case.watched, contexts=inner)).best(case.guesses, pieces, also=also, faults=1)
        if found is not None and not found.right:  # a mistake shows there; what comes after stays unseen
            case.match = match = replace(found, context=-1)  # none of those that come back
            case.watched = replace(case.watched, contexts=inner)
    if match is None:
        _not_numbers(case)
        return
    case.checked.append("numbers")
    for id_ in match.variant.ids:
        if id_ == "H8" and case.says.library:
            case.remark(
                "H8",
                _(
                    "query heads share key heads 0, 1, 0, 1 …, this library's own convention; LLaMA's weights mean 0, 0, 1, 1 …"
                ),
            )
            continue
        _name(case, id_, match.variant.told[id_], match.error)


def _attends_again(case: Case) -> bool:
    """True if a call computes more than one softmax, so that what is asked for need not be meant for the first."""
    assert case.watched is not None
    capture = case.watched.result.seen
    return capture is not None and len(capture.softmaxes) + len(getattr(capture, "kernels", ())) > 1


def _lengths_before_heads(case: Case) -> bool:
    """A function of (B, N, H, D): read so from here on, if its outputs say that tokens stand there."""
    twin = copy.copy(case.subject)
    twin.layout = "bnhd"
    n, m = twin.sizes.queries, twin.sizes.keys
    for keys in (m, n):  # a triangle of its own may want as many keys as queries
        try:
            seen, _ = support(twin, twin.draw(n=n, m=keys), None, ["k", "v"] if "k" in twin.inputs else None)
        except UserError:
            continue
        if not seen[np.eye(*seen.shape) == 0].any():
            continue  # heads or texts side by side
        case.subject.layout = "bnhd"
        lengths(case)
        case.support = seen
        return True
    return False


def _scaled_weights(case: Case, match: Match) -> bool:
    """Unscaled scores whose query weights were drawn smaller by 1/√d than the keys': the scale is in them."""
    owner = case.subject.owner
    named = dict(owner.named_parameters()) if isinstance(owner, nn.Module) else {}
    q, k = (named.get(name) for name in match.guess.names[:2])
    if q is None or k is None or q is k:
        return False
    ratio = float(q.detach().std() / k.detach().std())
    return abs(ratio * match.at.head**0.5 - 1) < 0.2


def _miscut(case: Case, matcher: Matcher, pieces: Any) -> None:
    """H7: a fused projection cut at other places than where q, k and v begin."""
    subject, watched = case.subject, case.watched
    heads = head_counts(subject, watched)
    kv = subject.chosen.get("kv_heads") or subject.declared.get("kv_heads") or heads[0]
    for guess in laid(watched.projected) if watched is not None and watched.projected else ():
        for some, h in itertools.product(pieces, heads):
            d = guess.q.shape[-1] // h
            form = AttentionForm(heads=h, pieces=some)
            error, place = matcher.error(guess, form)
            if error < matcher.tolerance:
                at = At(len(guess.q), guess.q.shape[-2], guess.k.shape[-2], subject.width, h, d, h)
                case.match = Match(Variant(form, {"H7": {"cut": guess.label}}), guess, form, error, at, place)
                return
    if watched is None or len(watched.projected) != 1 or heads[0] < 2:
        return
    width = watched.projected[0].features.shape[-1]
    if width % (heads[0] + 2 * kv):
        return
    d = width // (heads[0] + 2 * kv)
    for guess in miscut(watched.projected[0], heads, kv, d):
        for some in pieces:
            form = AttentionForm(heads=heads[0], kv_heads=kv, pieces=some)
            error, place = matcher.error(guess, form)
            if error < matcher.tolerance:
                at = At(len(guess.q), guess.q.shape[-2], guess.k.shape[-2], subject.width, heads[0], d, kv)
                case.match = Match(
                    Variant(form, {"H7": {"cut": guess.label, "right": f"0, {heads[0]}, {heads[0] + kv}"}}),
                    guess,
                    form,
                    error,
                    at,
                    place,
                )
                return


def _not_numbers(case: Case) -> None:
    """NaN from finite numbers, without any mask handed over."""
    output = case.watched.output if case.watched else None
    if output is None or not np.isnan(output).any():
        return
    rows = np.isnan(output).any(-1)
    rows = rows.any(tuple(range(rows.ndim - 1)))
    if sees_only_future(case):
        case.add("M1", "triangle")
    elif case.says.fill == float("inf") or rows.mean() > 0.5:
        case.add(
            "M9",
            sentence=_("{part:.0f} % of the rows are NaN, from finite numbers and without a mask handed over"),
            part=float(rows.mean()) * 100,
        )
    else:
        case.add("M12", "nan", rows=", ".join(map(str, np.flatnonzero(rows))))


def _name(case: Case, id_: str, told: dict[str, Any], error: float) -> None:
    match = case.match
    assert match is not None
    at = match.at
    values = dict(
        error=error,
        head=at.head,
        width=at.width,
        heads=at.heads,
        n=at.n,
        m=at.m,
        batch=at.batch,
        root=at.head**0.5,
        wide=at.width**0.5,
        right=at.head**-0.5,
    )
    if id_ == "S6":
        values["sum"] = 1 / float(told["value"])
    values.update(told)
    how = "laid" if id_ == "H7" and "right" not in told else ""
    if id_ == "M12":
        how = {"strict": "strict", "ahead": "ahead"}.get(str(told.get("kind")), "transposed")
        if told.get("kind") == "strictly transposed":
            id_, how = "M1", "triangle"
    if id_ in ("M7", "M8", "X7", "M9"):
        if id_ == "M8" and case.says.fill not in (None, 0.0):
            id_ = "M9"
        how = "causal"
    if id_ in ("R4", "R7"):
        how = "numbers"
    if id_ == "H3" and not _sees_the_batch(case):
        return  # keys and values that are learned are the same for every text, so the order of texts and heads is no mistake
    if id_ == "S4":
        how = "size" if told.get("size") else ""
        values.setdefault("size", "")
    case.add(id_, how, **values)


def _sees_the_batch(case: Case) -> bool:
    """True if the output of the first text alone differs from its output beside the other texts."""
    alone = {role: array[:1] for role, array in case.inputs.items()}
    try:
        output = case.subject(alone).output
    except UserError:
        return True
    return not np.allclose(output, case.subject(case.inputs).output[:1], equal_nan=True)


def _by_scale(case: Case, matcher: Matcher, pieces: Any) -> Any:
    """Everything right but the scale, which is a number that none of the sizes explains."""
    tried = 0
    for guess in case.guesses[:8]:
        for some in pieces:
            for form, at in bases(case.subject, guess, matcher.watched, some):
                if form.rotary or form.slopes or form.activation or form.split == "dh" or form.merge == "dh":
                    continue
                tried += 1
                if tried > 12:
                    return None
                found = matcher.scale(guess, form)
                if found is None:
                    continue
                scale, error = found
                fitted = replace(form, scale=scale)
                on_purpose = abs(scale * at.head - 1) < 1e-5 or _learned(case, scale) or _asked(case, scale)
                on_purpose = on_purpose or (not case.subject.watched_weights() and _constructed(case, scale))
                if on_purpose:
                    case.remark(
                        "S4",
                        _(
                            "the scale is {scale}, not 1/√{head} = {right}; taken as meant so (1/d, learned or passed in)"
                        ),
                        scale=scale,
                        right=at.head**-0.5,
                        head=at.head,
                    )
                    return Match(Variant(fitted), guess, fitted, error, at)
                told = {"S4": {"value": scale, "used": f"{scale:.4g}", "size": ""}}
                return Match(Variant(fitted, told), guess, form, error, at)
    return None


def _learned(case: Case, scale: float) -> bool:
    """A temperature that is trained, or one that is kept as a parameter."""
    owner = case.subject.owner
    if not isinstance(owner, nn.Module):
        return False
    for p in owner.parameters():
        if p.numel() <= 64 and p.dim() <= 4 and p.numel() < 2 * case.subject.sizes.heads + 1:
            for value in p.detach().double().flatten().tolist():
                for known in (
                    value,
                    1 / value if value else 0,
                    np.exp(value),
                    abs(value) ** 0.5,
                    value * case.inputs[case.subject.inputs[0]].shape[-1] ** -0.5,
                ):
                    if known and abs(scale / known - 1) < 1e-4:
                        return True
    return False


def _is_dot_score(subject: Subject) -> bool:
    """True for attention without weights of one input to another, whose vectors are keys and values at once."""
    return set(subject.inputs) in ({"x", "memory"}, {"q", "memory"}) and not subject.watched_weights()


def _passed(case: Case, match: Match) -> bool:
    """Whether the scale that is wrong is one that we handed over, and that is used."""
    subject = case.subject
    if not match.variant.ids:
        return False
    own = ("scale",) if subject.watched_weights() else ("temperature", "scale")  # a scale may multiply or divide
    if any(isinstance(subject.chosen.get(word), float) for word in own):
        return match.variant.ids != ("S2",)
    if subject.watched_weights():
        return False
    if _constructed(case, match.variant.form.scale if isinstance(match.variant.form.scale, float) else None):
        return True
    told = [p for p, r in subject.roles.items() if r == "scale" and isinstance(subject.fixed.get(p), float)]
    inputs = case.inputs
    doubled = {p: 2 * subject.fixed[p] for p in told}
    return bool(told) and not np.array_equal(subject(inputs).output, subject(inputs, doubled).output)


def _constructed(case: Case, scale: float | None) -> bool:
    """True if code without weights scales by a size that its constructor got: whoever builds it knows the width."""
    sizes = [v for v in case.subject.chosen.values() if type(v) is int and v > 1]
    return scale is not None and any(abs(scale * size**0.5 - 1) < 1e-6 for size in sizes)


def _asked(case: Case, scale: float) -> bool:
    """A scale that the caller passed."""
    given = [v for v in [*case.subject.chosen.values(), *case.subject.fixed.values()] if isinstance(v, float) and v]
    words = {"temperature", "scale"} & set(case.subject.chosen)
    return bool(words) and any(abs(scale / g - 1) < 1e-6 or abs(scale * g - 1) < 1e-6 for g in given)
