"""Probes of the module around attention: its weights, its gradients, its modes, what it is made of."""

import contextlib
import copy
import re
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...words import _
from ..case import Case
from ..mistakes.projections import FromTheKey
from ..numbers.match import _letter
from ..source.file import Source
from ..subject.capture import Capture, named
from ..subject.guess import role
from ..subject.subject import Subject, UserError, arrays, copied, line_of, settings, signature, to_numpy
from .changes import PROBES, probe, size_of, skip


@probe("repeat")
def repeatable(case: Case) -> None:
    """The same call in eval mode gives the same numbers twice."""
    subject, inputs = case.subject, case.notes["inputs"]
    with _made_inside(case) as made:
        one = subject(inputs, seed=None, quiet=False)
        two = subject(inputs, seed=None, quiet=False)
    quiet = subject(inputs, watch=True)
    if made:
        kind = type(made[0]).__name__
        random = not np.array_equal(one.output, two.output, equal_nan=True)
        case.add("T1", "random" if random else "", kind=kind)
    if not np.array_equal(one.output, two.output, equal_nan=True) and not made:
        difference = float(np.nanmax(np.abs(one.output - two.output)) / size_of(one.output))
        if quiet.seen is not None and quiet.seen.dropped:
            case.add("T3", p=max(quiet.seen.dropped), change=difference)
        elif _fresh_weights(case, quiet.seen):
            case.add("T1", "random", kind="tensor")
        elif subject.framework == "numpy" or quiet.seen is not None:
            case.add("T3", "random", change=difference)


def _fresh_weights(case: Case, seen: Capture | None) -> bool:
    return seen is not None and any(not named(case.subject.owner, p.weight) for p in seen.products)


@contextlib.contextmanager
def _made_inside(case: Case) -> Any:
    """The layers with weights that run but that the module doesn't know: made in forward."""
    owner = case.subject.owner
    made: list[nn.Module] = []
    if not isinstance(owner, nn.Module):
        yield made
        return
    known = {id(m) for m in owner.modules()}
    older = {id(m) for m in _hidden(owner)}

    def look(module: nn.Module, _: Any) -> None:
        if (
            id(module) not in known
            and id(module) not in older
            and next(module.parameters(recurse=False), None) is not None
        ):
            made.append(module)

    handle = torch.nn.modules.module.register_module_forward_pre_hook(look)
    try:
        yield made
    finally:
        handle.remove()


def _hidden(owner: nn.Module) -> list[nn.Module]:
    """Layers in plain lists, tuples and dicts, which a module doesn't see."""
    found = []
    for part in owner.modules():
        for given in vars(part).values():
            items = (
                given
                if isinstance(given, (list, tuple))
                else given.values()
                if isinstance(given, dict) and given is not part._modules
                else ()
            )
            for item in items:
                if isinstance(item, nn.Module):
                    found += list(item.modules())
                elif isinstance(item, (list, tuple)):
                    found += [m for inner in item if isinstance(inner, nn.Module) for m in inner.modules()]
    known = {id(m) for m in owner.modules()}
    return [m for m in found if id(m) not in known]


@probe("registered")
def registered(case: Case) -> None:
    """Every weight that is used is one that an optimizer would see."""
    owner = case.subject.owner
    if not isinstance(owner, nn.Module):
        return skip(case, "registered", "no nn.Module")
    hidden = [m for m in _hidden(owner) if next(m.parameters(recurse=False), None) is not None]
    if hidden:
        seen_all = sum(p.numel() for p in owner.parameters())
        missed = sum(p.numel() for m in hidden for p in m.parameters(recurse=False))
        inside = {id(child) for m in _hidden(owner) for child in m.children()}
        count = len({id(m) for m in _hidden(owner)} - inside)
        case.add("T2", count=count, missed=missed, known=seen_all)
        return None
    result = case.subject(case.notes["inputs"], watch=True)
    assert result.seen is not None
    plain = [
        name
        for part in owner.modules()
        for name, given in vars(part).items()
        if isinstance(given, Tensor) and given.is_leaf and given.requires_grad
    ]
    for product in result.seen.products:
        weight = product.weight
        if not named(owner, weight) and _kept_on(owner, weight):
            plain.append(_kept_on(owner, weight))
    if plain and not case.has("T1"):
        case.add(
            "T2",
            "tensor",
            names=", ".join(dict.fromkeys(plain)),
            known=sum(p.numel() for p in owner.parameters()),
        )
    return None


def _kept_on(owner: nn.Module, weight: Tensor) -> str:
    """The attribute that holds this plain tensor, "" where it is made on the spot."""
    storage = weight.untyped_storage().data_ptr()
    for part in owner.modules():
        for name, given in vars(part).items():
            tensors = (
                [given]
                if isinstance(given, Tensor)
                else [i for i in given if isinstance(i, Tensor)]
                if isinstance(given, (list, tuple))
                else []
            )
            if any(t.untyped_storage().data_ptr() == storage for t in tensors if t.is_floating_point()):
                return name
    return ""


@probe("inputs untouched")
def untouched(case: Case) -> None:
    """What was handed over is as it was afterwards."""
    subject, inputs = case.subject, case.notes["inputs"]
    if subject.layout in ("ids", "nc"):
        return skip(case, "inputs untouched", subject.layout)
    arguments = {p: subject._encode(inputs[r]) for p, r in subject.roles.items() if r in inputs}
    copies = {p: to_numpy(a) for p, a in arguments.items()}
    first = next(iter(inputs.values()))
    with contextlib.suppress(UserError):
        subject._run(arguments, None, first.shape, False, True, False, 0)
    for p, before in copies.items():
        if not np.array_equal(to_numpy(arguments[p]), before):
            case.add("N3", parameter=p)
    return None


@probe("every input counts")
def every_input_counts(case: Case) -> None:
    """Changing q, k, v or the memory alone changes the output."""
    subject, inputs = case.subject, case.notes["inputs"]
    base = subject(inputs).output
    deaf = []
    for r in subject.inputs:
        random = np.random.default_rng(17)
        other = dict(inputs)
        if inputs[r].dtype.kind == "i":
            other[r] = 2 + (inputs[r] - 2 + 1) % (subject.sizes.vocabulary - 2)
        else:
            other[r] = random.standard_normal(inputs[r].shape)
        if np.array_equal(subject(other).output, base, equal_nan=True):
            deaf.append(r)
    names = {r: p for p, r in subject.roles.items()}
    if "memory" in deaf:
        case.add("C1", parameter=names["memory"])
    elif deaf and deaf != ["x"]:
        unused = unused_weights(case) if isinstance(subject.owner, nn.Module) and subject.layout != "nc" else []
        case.add(
            "P2" if unused or _from_key(case, deaf[0]) else "P1",
            sentence=FromTheKey.evidence[""],
            parameter=", ".join(names[r] for r in deaf),
        )


def _from_key(case: Case, letter: str) -> bool:
    """Whether what is projected for q (or v) moves with the key."""
    subject, inputs = case.subject, case.notes["inputs"]
    if "k" not in inputs or not isinstance(subject.owner, nn.Module):
        return False
    moved = {**inputs, "k": inputs["k"] * 0.5 + 0.1}
    one, two = (subject(i, watch=True).seen.products for i in (inputs, moved))
    return any(
        _letter(named(subject.owner, a.weight)) == letter and not torch.equal(a.given, b.given)
        for a, b in zip(one, two, strict=False)
    )


@probe("every weight counts")
def every_weight_counts(case: Case) -> None:
    """Every projection gets a gradient."""
    subject, owner = case.subject, case.subject.owner
    if not isinstance(owner, nn.Module) or subject.layout == "nc":
        return skip(case, "every weight counts", "no weights")
    unused = unused_weights(case)
    case.notes["unused"] = unused
    letters = {name: _letter(name) for name in unused}
    matched = case.match is not None
    matrices = {n for n, p in owner.named_parameters() if p.dim() >= 2}
    projections = [
        n
        for n in unused
        if (letters[n] or (matched and n in matrices and _beside(case, n))) and not re.search(r"norm|\bln", n.lower())
    ]
    norms = [n for n in unused if re.search(r"norm|(^|[._])ln\d?", n.lower()) and n.endswith("weight")]
    biases = {n for n in unused if n.endswith("bias")}
    projections = [n for n in projections if n not in biases]
    kinds = {re.sub(r"\d+", "·", n) for n in projections}  # heads.0.value and heads.1.value are one
    if projections and len(kinds) < 3 and not case.has("P2", "C1", "X6"):
        used = ", ".join(dict.fromkeys(n for n in (case.match.guess.names if case.match else ()) if n))
        seen = subject(case.notes["inputs"], watch=True).seen
        ran = {named(owner, product.weight) for product in seen.products} if seen is not None else set()
        values: dict[str, Any] = {"unused": ", ".join(projections[:4]), "used": used or "?"}
        if set(projections) <= ran:
            case.add("P2", "thrown away", **values)
        else:
            case.add("P1", **values)
    if norms and not case.has("P1") and len(norms) <= 2 and "memory?" not in subject.roles.values():
        case.add("T6", "unused", unused=", ".join(norms))
    return None


def _beside(case: Case, name: str) -> bool:
    """A weight that stands beside the projections and is of their shape: `linears.1` beside `linears.0`."""
    assert case.match is not None
    owner = dict(case.subject.owner.named_parameters())
    used = [n for n in case.match.guess.names if n in owner]
    if re.search(r"emb|pos|rel|cross|enc|mem|out|fc|final|head\b|lm_|class", name.lower()):
        return False
    return any(_parent(n) == _parent(name) and owner[n].shape == owner[name].shape for n in used)


def _parent(name: str) -> str:
    """
    >>> _parent("attn.linears.0.weight"), _parent("W_q")
    ('attn.linears', '')
    """
    return name.removesuffix(".weight").rpartition(".")[0]


def unused_weights(case: Case) -> list[str]:
    """Names of parameters whose gradient is missing or nothing but zeros."""
    subject, owner = case.subject, case.subject.owner
    for p in owner.parameters():
        p.grad = None
    wanted = [p.requires_grad for p in owner.parameters()]
    try:
        result = subject(case.notes["inputs"], grad=True)
    except UserError:
        return []
    random = np.random.default_rng(1)
    several = [
        result.graph,
        *arrays(result.raw),
    ]  # one that gives two texts back uses some weights for the second alone
    graphs = [g for g in several if isinstance(g, torch.Tensor) and g.requires_grad]
    if not graphs:
        return []
    try:
        with settings(subject.dtype):
            drawn = [torch.as_tensor(random.standard_normal(tuple(g.shape)), dtype=g.dtype) for g in graphs]
            torch.stack([(g * one).sum() for g, one in zip(graphs, drawn, strict=True)]).sum().backward()
    except RuntimeError as error:
        case.notes["backward"] = error
        return []
    found = [
        n
        for (n, p), w in zip(owner.named_parameters(), wanted, strict=True)
        if w and p.dim() >= 1 and (p.grad is None or bool((p.grad == 0).all()))
    ]
    for p in owner.parameters():
        p.grad = None
    return found


@probe("gradient")
def gradient(case: Case) -> None:
    """Forward and backward run with gradients on, masks too."""
    subject = case.subject
    if subject.framework != "torch" or subject.layout == "nc":
        return skip(case, "gradient", "no torch")
    error = case.notes.get("backward")
    if error is None:
        try:
            givens = [None, *case.notes.get("masks", [])]
            for given in givens:
                result = subject(case.notes["inputs"], given, grad=True)
                if result.graph is not None and result.graph.requires_grad:
                    result.graph.sum().backward()
        except (RuntimeError, UserError) as raised:
            error = raised
    text = str(error or "")
    if (
        "inplace" in text.replace("-", "")
        or "in-place" in text
        or "a view of" in text
        or "leaf Variable" in text
        or "modified by" in text
    ):
        case.add(
            "N2",
            error=text.split("\n")[0][:160],
            line=line_of(error.error if isinstance(error, UserError) else error) if error else None,
        )
    return None


@probe("half")
def half(case: Case) -> None:
    """In half precision the mask's fill value still fits."""
    subject = case.subject
    if subject.framework != "torch" or subject.layout not in ("bnc", "bhnd", "nbc"):
        return skip(case, "half", "no torch")
    givens = [None, *case.notes.get("masks", [])]
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
                twin(case.notes["inputs"], given)
            except UserError as error:
                if re.search(r"overflow|cannot be converted to type .*[Hh]alf", str(error)):
                    if re.search(r"\.half\(|float16|\bfp16|autocast|\bamp\b", case.facts.get("text", "")):
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
        seen = subject(case.notes["inputs"], awake, watch=True).seen
        if seen is not None and seen.thin_softmaxes:
            case.add("X8", "before", p=max(seen.dropped))
        return None
    if not isinstance(owner, nn.Module) or subject.layout == "nc":
        return skip(case, "training", "no module")
    givens = [None, *case.notes.get("masks", [])]
    owner.train()
    try:
        for given in givens:
            quiet = subject(case.notes["inputs"], given, watch=True)
            before = quiet.output
            if quiet.seen is not None and quiet.seen.thin_softmaxes:
                case.add("X8", "before", p=max(quiet.seen.dropped))
                return None
            for seed in range(4):
                result = subject(case.notes["inputs"], given, quiet=False, seed=seed)
                if np.isnan(result.output).any() and not np.isnan(before).any():
                    case.add("X8", part=float(np.isnan(result.output).mean()) * 100)
                    return None
                if (
                    result.weights is not None
                    and result.weights.ndim >= 3
                    and given is None
                    and result.weights.shape[-2] == case.notes["lengths"][0]
                ):
                    quiet_rows = _rows(subject(case.notes["inputs"], given).weights)
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
        return skip(case, "second call", "has weights of one width")
    try:
        wider = copy.copy(subject)
        wider.width = subject.width + 4
        inputs = wider.draw(8)
        late = wider(inputs).output
        if subject.owner is None and not isinstance(case.notes.get("source"), Source):
            return skip(case, "second call", "a function of no file")
        early, before = _anew(case, wider)(inputs).output, subject.draw(8)
        if not np.allclose(_anew(case, subject)(before).output, subject(before).output, atol=1e-9, equal_nan=True):
            return skip(case, "second call", "what it was made with is drawn anew")
    except (UserError, Exception):
        return skip(case, "second call", "can't be called with another width")
    difference = float(np.abs(late - early).max() / size_of(early))
    if difference > 1e-9:
        case.add("S8", change=difference, first=subject.width, second=wider.width)
    return None


def _anew(case: Case, subject: Subject) -> Subject:
    """The same with nothing remembered: the file loaded again, or an object that was never called."""
    fresh = copy.copy(subject)
    if subject.owner is None:
        fresh.function = case.notes["source"].edited(()).load(subject.name)
        return fresh
    fresh.owner = copy.deepcopy(case.notes["fresh"])
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
    if owner is None or watched is None or match is None or subject.layout in ("bhnd", "bnhd", "bc"):
        return skip(case, "inventory", "no weights")
    if not isinstance(owner, nn.Module):
        if match.at.heads > 1 and watched.projected and not watched.after and _multi(case):
            case.add("P4", heads=match.at.heads)
        return None
    if not any(p.dim() >= 2 for p in owner.parameters()) and not case.has("T2", "T1"):
        return None
    heads, d = match.at.heads, match.at.head
    shapes = [p.weight for p in watched.projected]
    small = [s for s in shapes if len(s) == 2 and s[0] == s[1] == d and heads > 1]
    features = {p.features.shape[-1] for p in watched.projected}
    if small and len(small) == len(shapes) and features == {heads * d}:
        case.add(
            "H6",
            head=d,
            heads=heads,
            width=heads * d,
            shared=sum(a * b for a, b in small),
            right=len(small) * (heads * d) ** 2,
        )
    missing = [
        letter
        for letter, name, array in zip(
            "QKV", match.guess.names, (match.guess.q, match.guess.k, match.guess.v), strict=True
        )
        if match.guess.label == "partly unprojected" and not name
    ]
    if missing and (watched.projected or watched.after) and not case.has("T2", "T1"):
        case.add("P3", missing=", ".join(f"W_{m}" for m in missing))
    elif match.guess.label == "inputs" and watched.after and not case.has("T2", "T1"):
        case.add("P3", missing="W_Q, W_K, W_V")
    if (
        heads > 1
        and watched.projected
        and not watched.after
        and match.context == 0  # else something else comes after them
        and not case.notes.get("residual")
        and not case.has("T2", "T1", "H6")
        and _multi(case)
    ):
        case.add("P4", heads=heads)
    return None


def _multi(case: Case) -> bool:
    """Multi-head attention without W_O; BERT keeps it in a layer of its own, which is no mistake."""
    source = case.facts.get("text", "")
    name = case.subject.name
    others = re.findall(
        r"\b(\w*(?:[Oo]ut(?:put)?|[Pp]roj(?:ection)?|unify\w*|w_?o|W_?[oO])\w*)\s*=\s*(?:nn\.)?(?:Linear|Parameter)",
        source,
    )
    inside = case.facts.get("segment_text", source)
    if re.search(r"Bert|Roberta|Electra", name):
        return False
    return not (others and name in _callers(source, inside))


def _callers(source: str, inside: str) -> str:
    """The file without the class itself: whether another class wraps it and projects its output."""
    return source.replace(inside, "")


@probe("cost")
def cost(case: Case) -> None:
    """E1: right but slow: a triangle built in every call, a Python loop over heads."""
    if line := case.facts.get("mask_built_in_forward"):
        case.remark(
            "E1", _("the causal mask is built anew in every call: right, but a buffer made once is faster"), line=line
        )
    if line := case.facts.get("loop_over_heads"):
        case.remark("E1", _("a Python loop over the heads: right, but one product over all heads is faster"), line=line)


@probe("dropout")
def dropout(case: Case) -> None:
    """nn.Dropout() drops half of everything: worth a word."""
    owner = case.subject.owner
    if isinstance(owner, nn.Module) and "dropout" not in case.subject.chosen:
        heavy = [n for n, m in owner.named_modules() if isinstance(m, nn.Dropout) and m.p == 0.5]
        if heavy and re.search(r"Dropout\(\s*\)", case.facts.get("text", "")):
            case.remark(
                "T3", _("nn.Dropout() without a number drops half of everything ({names})"), names=", ".join(heavy)
            )


__all__ = ["PROBES"]
