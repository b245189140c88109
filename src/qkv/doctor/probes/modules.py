"""Probes of the module around attention: its precision, its modes, what it is made of."""

import copy
import re
from typing import Any

import numpy as np
from torch import nn

from ...i18n import _
from ..case import Case
from ..numbers.guesses import head_counts, letter_of
from ..numbers.watching import mixed_of
from ..source.file import Source
from ..source.uses import reached_from_outside, used_by
from ..subject.adapt import eval_flags
from ..subject.errors import UserError
from ..subject.guess import role
from ..subject.subject import Subject
from ..subject.values import copied, parameters_of, signature, to_numpy
from .probe import probe, size_of, skip


@probe("half")
def half(case: Case) -> None:
    """In half precision the mask's fill value still fits."""
    subject = case.subject
    if subject.framework != "torch" or subject.layout not in ("bnc", "bhnd", "nbc"):
        return skip(case, "half", _("no torch"))
    givens = [None, *case.mask_examples]
    twin = copy.copy(subject)
    owner = subject.owner
    try:
        if isinstance(owner, nn.Module):
            owner = copied(owner).half()
            twin.function = (
                owner if isinstance(subject.function, nn.Module) else getattr(owner, subject.function.__name__)
            )
            twin.owner = owner
        twin.dtype = "float16"
        for given in givens:
            try:
                twin(case.inputs, given)
            except UserError as error:
                if re.search(r"overflow|cannot be converted to type .*[Hh]alf", str(error)):
                    if re.search(r"\.half\(|float16|\bfp16|autocast|\bamp\b", case.says.text):
                        case.add("N1", error=str(error)[:160], line=error.line)
                    else:
                        case.remark(
                            "N1",
                            _(
                                "its fill value does not fit into half precision: write torch.finfo(scores.dtype).min or -inf before training in float16"
                            ),
                            line=error.line,
                        )
                    return None
    except Exception as error:
        case.stopped("half", error)
    return None


@probe("training")
def training(case: Case) -> None:
    """In training mode with dropout the output is still numbers."""
    subject, owner = case.subject, case.subject.owner
    if not isinstance(owner, nn.Module) and subject.framework == "torch" and (awake := _awake(subject)):
        seen = subject(case.inputs, awake, watch=True).seen
        if seen is not None and seen.thin_softmaxes:
            case.add("X8", "before", p=max(seen.dropped))
        return None
    if not isinstance(owner, nn.Module) or subject.layout == "nc":
        return skip(case, "training", _("no module"))
    for flag in eval_flags(parameters_of(subject.function)):
        owner.eval()
        one, other = (subject(case.inputs, {flag: True}, quiet=False, seed=seed).output for seed in (0, 1))
        if not np.array_equal(one, other, equal_nan=True):
            case.miss(
                "dropout",
                _("{flag}=True, the default: with it, dropout acts after eval() too; pass {flag}=self.training"),
                flag=flag,
            )
    givens = [None, *case.mask_examples]
    owner.train()
    try:
        for given in givens:
            quiet = subject(case.inputs, given, watch=True)
            before = quiet.output
            if quiet.seen is not None and quiet.seen.thin_softmaxes:
                case.add("X8", "before", p=max(quiet.seen.dropped))
                return None
            for seed in range(4):
                result = subject(case.inputs, given, quiet=False, seed=seed)
                if np.isnan(result.output).any() and not np.isnan(before).any():
                    case.add("X8", part=float(np.isnan(result.output).mean()) * 100)
                    return None
                if (
                    result.weights is not None
                    and result.weights.ndim >= 3
                    and given is None
                    and result.weights.shape[-2] == case.lengths[0]
                ):
                    quiet_rows = _rows(subject(case.inputs, given).weights)
                    rows = _rows(result.weights)
                    if (
                        quiet_rows is not None
                        and rows is not None
                        and np.allclose(quiet_rows, 1)
                        and not np.allclose(rows, 1)
                    ):
                        case.remark(
                            "X8",
                            _(
                                "in training mode the weights handed back are those after dropout (rows sum to {low:.2f} … {high:.2f}); read plots in eval mode"
                            ),
                            low=float(rows.min()),
                            high=float(rows.max()),
                        )
                        return None
    finally:
        owner.eval()
    return None


def _awake(subject: Subject) -> dict[str, Any]:
    """The arguments that make a function drop: p=0.5, training=True; {} where it has none."""
    parameters = signature(subject.function).parameters
    given: dict[str, Any] = {
        p: 0.5 for p in parameters if role(p) == "dropout" and type(parameters[p].default) is float
    }
    return given | {p: True for p in parameters if re.match("train", p)} if given else {}


def _rows(weights: np.ndarray | None) -> np.ndarray | None:
    return None if weights is None else weights.sum(-1)


@probe("second call")
def second_call(case: Case) -> None:
    """Nothing is remembered from the first call that the second one with other sizes would need anew."""
    subject = case.subject
    if subject.watched_weights() or subject.layout not in ("bhnd", "bnc", "nc"):
        return skip(case, "second call", _("has weights of one width"))
    try:
        wider = copy.copy(subject)
        wider.width = subject.width + 4
        inputs = wider.draw(8)
        late = wider(inputs).output
        if subject.owner is None and not isinstance(case.source, Source):
            return skip(case, "second call", _("a function of no file"))
        early, before = _anew(case, wider)(inputs).output, subject.draw(8)
        if not np.allclose(_anew(case, subject)(before).output, subject(before).output, atol=1e-9, equal_nan=True):
            return skip(case, "second call", _("what it was made with is drawn anew"))
    except (UserError, Exception):
        return skip(case, "second call", _("can't be called with another width"))
    difference = float(np.abs(late - early).max() / size_of(early))
    if difference > 1e-9:
        case.add("S8", change=difference, first=subject.width, second=wider.width)
    return None


def _anew(case: Case, subject: Subject) -> Subject:
    """The same with nothing remembered: the file loaded again, or an object that was never called."""
    fresh = copy.copy(subject)
    if subject.owner is None:
        fresh.function = case.source.edited(()).load(subject.name)
        return fresh
    fresh.owner = copy.deepcopy(case.fresh)
    module = isinstance(subject.function, nn.Module)
    fresh.function = fresh.owner if module else getattr(fresh.owner, subject.function.__name__)
    return fresh


@probe("layers of their own")
def own_layers(case: Case) -> None:
    """A stack holds layers with weights of their own, not one layer many times."""
    owner = case.subject.owner
    if not isinstance(owner, nn.Module):
        return None
    for name, part in owner.named_modules(remove_duplicate=False):
        if isinstance(part, (nn.ModuleList, nn.Sequential)) and len(part) > 1:
            heavy = [m for m in part if next(m.parameters(), None) is not None]
            if len(heavy) > 1 and len({id(m) for m in heavy}) == 1:
                case.add("H10", name=name or type(part).__name__, times=len(heavy))
    return None


@probe("inventory")
def inventory(case: Case) -> None:
    """Four projections, each from the whole width."""
    subject, owner, match, watched = case.subject, case.subject.owner, case.match, case.watched
    _shared(case)
    _unmerged(case)
    if owner is None or watched is None or match is None or subject.layout in ("bhnd", "bnhd", "bc"):
        return skip(case, "inventory", _("no weights"))
    if not isinstance(owner, nn.Module):
        if match.at.heads > 1 and watched.projected and not watched.after and _multi(case):
            case.add("P4", heads=match.at.heads)
        return None
    if not any(p.dim() >= 2 for p in owner.parameters()) and not case.has("T2", "T1"):
        return None
    heads = match.at.heads
    missing = [
        letter
        for letter, name, array in zip(
            "QKV", match.guess.names, (match.guess.q, match.guess.k, match.guess.v), strict=True
        )
        if match.guess.label == "partly unprojected" and not name
    ]
    idle = [name for name in case.unused if letter_of(name).upper() in missing]
    if idle and reached_from_outside(case.source, subject.name, idle):
        return None  # whoever calls it projects them before
    if missing and (watched.projected or watched.after) and not case.has("T2", "T1"):
        case.add("P3", missing=", ".join(f"W_{m}" for m in missing))
    elif match.guess.label == "inputs" and watched.after and not case.has("T2", "T1"):
        case.add("P3", missing="W_Q, W_K, W_V")
    if (
        heads > 1
        and watched.projected
        and not watched.after
        and match.context == 0  # else something else comes after them
        and not case.residual
        and not case.has("T2", "T1", "H6")
        and _multi(case)
    ):
        case.add("P4", heads=heads)
    return None


def _shared(case: Case) -> None:
    """H6: q, k and v, several heads wide, are made by weights of one head alone."""
    made = case.watched.projected if case.watched is not None and isinstance(case.subject.owner, nn.Module) else []
    shapes = {(p.weight, p.features.shape[-1]) for p in made}
    if len(shapes) != 1 or (len(made) < 3 and case.match is None):
        return
    [(shape, width)] = shapes
    if width != case.subject.width:  # more than heads lies beside the tokens: patches, channels
        return
    if len(shape) == 2 and shape[0] == shape[1] and width % shape[0] == 0 and width > shape[0] > 1:
        values = {"head": shape[0], "heads": width // shape[0], "width": width}
        case.add("H6", shared=len(made) * shape[0] ** 2, right=len(made) * width**2, **values)


def _unmerged(case: Case) -> None:
    """P4 in a layer: what the heads gave, side by side, is added to the input as it is, with no weight in between."""
    subject, x = case.subject, case.inputs.get("x")
    if case.match is not None or case.watched is None or x is None or subject.layout != "bnc":
        return
    seen, mixed = case.watched.result.seen, mixed_of(subject, case.watched.result, case.inputs)
    heads = head_counts(subject, case.watched)[0]
    sums = [x + one for one in mixed if one.shape == x.shape] if heads > 1 else []
    if any(tuple(made.shape) == x.shape and np.allclose(to_numpy(made), one) for one in sums for made in seen.made):
        case.add("P4", "layer", heads=heads)


def _multi(case: Case) -> bool:
    """Multi-head attention without W_O. It may stand in the layer around, as BERT has it: then that layer is to be looked at."""
    if re.search(r"Bert|Roberta|Electra", case.subject.name):
        return False
    if where := used_by(case.source, case.subject.name):
        case.miss(
            "output projection",
            _("an output projection: it has none, but {where} uses it and may have one; check that one too"),
            where=where,
        )
        return False
    if {"width", "head"} <= case.subject.chosen.keys():  # H·d need not be the model's width
        case.miss(
            "output projection",
            _(
                "an output projection: it has none, and since the width of a head is a parameter of its own, its output "
                "need not have the width of its input, so the code around it may have one"
            ),
        )
        return False
    return True


@probe("cost")
def cost(case: Case) -> None:
    """E1: right but slow: a triangle built in every call, a Python loop over heads."""
    if line := case.says.mask_built_in_forward:
        case.remark(
            "E1", _("the causal mask is built anew in every call: right, but a buffer made once is faster"), line=line
        )
    if line := case.says.loop_over_heads:
        case.remark("E1", _("a Python loop over the heads: right, but one product over all heads is faster"), line=line)


@probe("dropout")
def dropout(case: Case) -> None:
    """nn.Dropout() drops half of everything: worth a word."""
    owner = case.subject.owner
    if isinstance(owner, nn.Module) and "dropout" not in case.subject.chosen:
        heavy = [n for n, m in owner.named_modules() if isinstance(m, nn.Dropout) and m.p == 0.5]
        if heavy and re.search(r"Dropout\(\s*\)", case.says.text):
            case.remark(
                "T3", _("nn.Dropout() without a number drops half of everything ({names})"), names=", ".join(heavy)
            )
