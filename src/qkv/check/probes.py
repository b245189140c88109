"""Probes: each changes one thing about the input or the call and says what must then hold.

They need no weights, so they also speak where numbers can't be compared. Each has a name, a line on what it shows,
and is skipped, with the reason kept, where it doesn't apply.
"""

import contextlib
import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .bugs import triangle
from .capture import Capture, named
from .examine import Case, support
from .match import _letter, poked
from .subject import UserError, last_line, line_of, settings, to_numpy

PROBES: dict[str, Callable[[Case], None]] = {}


def probe(name: str) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    """Enters a probe under its name; they run in this order."""

    def enter(function: Callable[[Case], None]) -> Callable[[Case], None]:
        PROBES[name] = function
        return function

    return enter


def run_probes(case: Case, only: list[str] | None = None) -> None:
    """All that apply; one that the user's code stops says so."""
    for name, function in PROBES.items():
        if name in case.checked or (only is not None and name not in only):
            continue
        try:
            function(case)
            if name not in case.skipped:
                case.checked.append(name)
        except UserError as error:
            case.skipped[name] = str(error)


def skip(case: Case, name: str, why: str) -> None:
    """Doesn't apply."""
    case.skipped[name] = why


def size_of(output: np.ndarray) -> float:
    """The largest finite number in it, to compare differences with."""
    return float(np.abs(np.nan_to_num(output, posinf=0, neginf=0)).max()) or 1.0


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
        case.add("T1", "evidence.T1.random" if random else "evidence.T1", kind=kind)
    if not np.array_equal(one.output, two.output, equal_nan=True) and not made:
        difference = float(np.nanmax(np.abs(one.output - two.output)) / size_of(one.output))
        if quiet.seen is not None and quiet.seen.dropped:
            case.add("T3", p=max(quiet.seen.dropped), change=difference)
        elif _fresh_weights(case, quiet.seen):
            case.add("T1", "evidence.T1.random", kind="tensor")
        elif subject.framework == "numpy" or quiet.seen is not None:
            case.add("T3", "evidence.T3.random", change=difference)


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
    plain = []
    for product in result.seen.products:
        weight = product.weight
        if not named(owner, weight) and _kept_on(owner, weight):
            plain.append(_kept_on(owner, weight))
    if plain and not case.has("T1"):
        case.add(
            "T2",
            "evidence.T2.tensor",
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
        case.add("P2" if unused else "P1", "evidence.P2", parameter=", ".join(names[r] for r in deaf))


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
        case.add("P1", unused=", ".join(projections[:4]), used=used or "?")
    if norms and not case.has("P1") and len(norms) <= 2 and "memory?" not in subject.roles.values():
        case.add("T6", "evidence.T6.unused", unused=", ".join(norms))
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
    graph = result.graph
    if graph is None or not graph.requires_grad:
        return []
    try:
        with settings(subject.dtype):
            (graph * torch.as_tensor(random.standard_normal(tuple(graph.shape)), dtype=graph.dtype)).sum().backward()
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


@probe("who sees whom")
def who_sees_whom(case: Case) -> None:
    """The pattern of which output moves with which input: whole, a triangle, a band; or a mistake."""
    seen = case.support
    if seen is None or seen.shape[0] != seen.shape[1]:
        return skip(case, "who sees whom", "keys of their own")
    n = len(seen)
    lower, upper = triangle(n, n, "causal"), triangle(n, n, "transposed")
    wants = case.options.get("causal")
    hint = wants if wants is not None else case.notes.get("causal_name", False)
    if case.has("H1", "H2", "H3"):
        return skip(case, "who sees whom", "tokens are mixed")
    if seen.all() and case.facts.get("bare_masked_fill") and not case.has("M2", "M3") and not case.subject.masks:
        case.add("M2", "evidence.M2.causal", line=case.facts["bare_masked_fill"])
        return None
    residual = case.notes.get("residual", False)
    if np.array_equal(seen, lower):
        if wants is False:
            case.add("M6", "evidence.causal.unwanted")
        return None
    if not np.any(seen & ~lower):  # within the triangle
        if np.array_equal(seen, triangle(n, n, "strict")):
            case.add("M12", "evidence.M12.strict")
        elif np.array_equal(seen, np.eye(n, dtype=bool)):
            skip(case, "who sees whom", "tokens don't meet")
        return None
    if np.array_equal(seen, triangle(n, n, "ahead")):
        case.add("M12", "evidence.M12.ahead")
    elif np.array_equal(seen, upper):
        case.add("M1" if case.facts.get("inverted_triangle") else "M12", "evidence.M12.transposed")
    elif np.array_equal(seen, triangle(n, n, "strictly transposed")):
        case.add("M1", "evidence.M1.triangle")
    elif seen.all():
        if hint and not residual and not case.has("X7", "M7", "M8", "M9", "M12", "M2", "M3") and not _explained(case):
            _no_triangle(case)
        elif hint and not case.has("X7", "M7", "M8", "M9", "M12", "M2", "M3") and not _explained(case):
            _no_triangle(case)
    return None


def _explained(case: Case) -> bool:
    return case.match is not None and bool(set(case.match.variant.ids) & {"X7", "M7", "M8", "M9", "M12", "X1", "M2"})


def _no_triangle(case: Case) -> None:
    bare = case.facts.get("bare_masked_fill")
    if bare:
        case.add("M2", "evidence.M2.causal", line=bare)
    elif not case.subject.masks or case.options.get("causal"):
        case.add("M14")


@probe("window")
def window(case: Case) -> None:
    """A band is as wide as was asked for: W tokens with the token itself, unless the code says W before it."""
    subject = case.subject
    given = subject.declared.get("window") or subject.chosen.get("window")
    asked = given if isinstance(given, int) else 0
    limit = int(subject.chosen.get("context") or 99)
    if not asked or subject.layout not in ("bnc", "ids") or subject.crosses or 2 * asked + 3 > limit or asked > 16:
        return skip(case, "window", "no window")
    seen, _ = support(subject, subject.draw(6, n=2 * asked + 3))
    middle, last = int(seen[asked + 1].sum()), int(seen[-1].sum())
    text = case.facts.get("text", "")
    says = re.search(
        r"itself (included|and)|own (position|token) included|current (one|token) included|including (itself|the current)|window(_size)? - 1|`window\w*` (keys|tokens)|last `?window",
        text,
    )
    fits = (
        {asked, 2 * asked + 1, 2 * asked - 1, asked | 1}
        if says
        else {asked, asked + 1, 2 * asked, 2 * asked + 1, 2 * asked - 1, asked | 1}
    )
    widest = int(seen.sum(-1).max())
    if widest == len(seen):
        return skip(case, "window", "everything is seen")
    if says and not np.triu(seen, 1).any():
        fits = {asked}
    if widest not in fits:
        case.add("M21", asked=asked, seen=max(middle, last, widest))
    return None


@probe("batch")
def batch(case: Case) -> None:
    """A text's output doesn't depend on the texts beside it."""
    if not case.across:
        return None
    if case.match is not None and case.match.variant.ids:
        return None
    if case.notes.get("batch_first_confusion"):
        case.add("H9")
        return None
    subject, inputs = case.subject, case.notes["inputs"]
    if subject.layout in ("bnc", "nbc", "ids"):
        seen = case.support
        if seen is not None and seen.shape[0] == seen.shape[1] and np.array_equal(seen, np.eye(len(seen), dtype=bool)):
            case.add("H9")
            return None
    if not case.has("X2", "H3", "H9", "H1", "H2"):
        axis = _softmax_axis(case)
        alone = {r: a[:1] for r, a in inputs.items()}
        together = subject(inputs).output[:1]
        try:
            difference = float(np.abs(subject(alone).output - together).max() / size_of(together))
        except UserError:
            difference = float("nan")
        case.add("X2" if axis == "batch" else "H3", "evidence.across", change=difference)
    return None


def _softmax_axis(case: Case) -> str:
    """Which axis the softmax that ran was taken over, by its size: keys, queries, heads or batch."""
    result = case.subject(case.notes["inputs"], watch=True)
    if result.seen is None or not result.seen.softmaxes:
        return ""
    scores, _, weights = result.seen.softmaxes[0]
    sums = [axis for axis in range(weights.dim()) if np.allclose(to_numpy(weights).sum(axis), 1)]
    if not sums:
        return ""
    size = scores.shape[sums[0]]
    sizes = case.subject.sizes
    return {sizes.batch: "batch", sizes.heads: "heads"}.get(size, "")


@probe("order")
def order(case: Case) -> None:
    """Without positions and masks, shuffled tokens give shuffled outputs; six copies of a token give one and the same."""
    if (
        case.match is not None
        or case.support is None
        or not case.support.all()
        or case.subject.layout not in ("bnc", "nc")
    ):
        return skip(case, "order", "not needed")
    subject, inputs = case.subject, case.notes["inputs"]
    if case.notes.get("positions") or case.across:
        return skip(case, "order", "positions inside")
    n = case.notes["lengths"][0]
    shuffled = np.random.default_rng(4).permutation(n)
    base = subject(inputs).output
    other = subject({r: a[:, shuffled] if a.shape[1] == n else a for r, a in inputs.items()}).output
    difference = float(np.abs(other - base[:, shuffled]).max() / size_of(base))
    one = {r: np.repeat(a[:, :1], a.shape[1], 1) for r, a in inputs.items()}
    rows = subject(one).output
    spread = float(np.abs(rows - rows[:, :1]).max() / size_of(rows))
    if difference > 1e-6 and spread > 1e-6:
        case.add(
            "H2" if case.facts.get("view_split") is None else "H1",
            "evidence.order",
            change=difference,
            spread=spread,
            certain=False,
        )
    return None


@probe("lengths")
def lengths(case: Case) -> None:
    """Other lengths run too: 1, 3, 9."""
    subject = case.subject
    if not isinstance(subject.owner, nn.Module) and subject.owner is not None and subject.framework == "numpy":
        pass
    if any(r in ("frequencies", "positions", "start") for p, r in subject.roles.items() if p in subject.fixed):
        return skip(case, "lengths", "tables of one length")
    if any(subject.roles.get(p) == "mask" and v is not None for p, v in subject.fixed.items()):
        return skip(case, "lengths", "a mask of one length")
    if isinstance(subject.chosen.get("window"), tuple):
        return skip(case, "lengths", "a window of an image")
    limit = subject.chosen.get("context") or 99
    for n in (1, 3, 9):
        if n > limit:
            continue
        try:
            subject(subject.draw(3, n=n, m=n))
        except UserError as error:
            case.add("M20", n=n, worked=case.notes["lengths"][0], error=str(error), line=error.line)
            return None
    return None


@probe("other keys")
def other_keys(case: Case) -> None:
    """As many keys as one likes: keys of another number than queries."""
    subject = case.subject
    if not subject.crosses or subject.layout == "ids":
        return skip(case, "other keys", "self-attention")
    if any(
        subject.roles.get(p) in ("mask", "frequencies", "positions") and v is not None for p, v in subject.fixed.items()
    ):
        return skip(case, "other keys", "a mask or a table of one length")
    if case.support is not None and case.support.shape[0] == case.support.shape[1] and not case.support.all():
        return skip(case, "other keys", "causal")
    n, m = subject.sizes.queries, subject.sizes.keys
    try:
        subject(subject.draw(2, n=n, m=m))
    except UserError as error:
        text = str(error)
        if re.search(rf"gave Tensor\({subject.sizes.batch}, {m},", text) and not case.has(
            "H1", "H2", "H3", "H9", "P1", "P2"
        ):
            case.add("C5", n=n, m=m)
        elif re.search(r"shape|view|reshape|size|broadcast|mismatch|einsum|dimension", text) and not case.has(
            "H1", "H2", "H3", "H9", "P1", "P2"
        ):
            case.add("C3", n=n, m=m, error=text, line=error.line)
    return None


@probe("large")
def large(case: Case) -> None:
    """Scores of a few thousand give no NaN."""
    subject = case.subject
    if subject.layout == "ids":
        return skip(case, "large", "tokens")
    base = subject(case.notes["inputs"]).output
    if not np.isfinite(base).all():
        return None
    result = subject({r: a * 300 for r, a in case.notes["inputs"].items()}).output
    if not np.isfinite(result).all() and not case.has("X6"):
        case.add("X5", bad=float(np.mean(~np.isfinite(result))) * 100)
    return None


@probe("growth")
def growth(case: Case) -> None:
    """Twice the input gives at most about twice the output: weights stay weights."""
    subject = case.subject
    if case.match is not None or subject.layout == "ids" or case.notes.get("residual"):
        return skip(case, "growth", "not needed")
    inputs = case.notes["inputs"]
    one, two = (size_of(subject({r: a * g for r, a in inputs.items()}).output) for g in (20.0, 40.0))
    if two / one > 5:
        case.add("X6", "evidence.X6.growth", growth=two / one)
    return None


@probe("constant values")
def constant_values(case: Case) -> None:
    """Rows of weights sum to 1: values that are all alike come out as they are."""
    subject = case.subject
    if case.match is not None or case.watched is None or case.watched.projected or "v" not in subject.inputs:
        return skip(case, "constant values", "not needed")
    moved = np.abs(
        subject(poked(subject, case.notes["inputs"], 0, 0, ["q"])).output - subject(case.notes["inputs"]).output
    )
    rows = moved[0].max((0, -1)) if moved.ndim == 4 else moved[0].max(-1)
    if not rows[0] or rows[1:].any() or case.support is None or not case.support.all():
        return skip(case, "constant values", "tokens stand on another axis")
    inputs = dict(case.notes["inputs"])
    inputs["v"] = np.broadcast_to(inputs["v"][..., :1, :], inputs["v"].shape).copy()
    output = subject(inputs).output
    wanted = inputs["v"][..., :1, :]
    if output.shape[:-2] == wanted.shape[:-2] and output.shape[-1] == wanted.shape[-1]:
        ratio = output / wanted
        if np.abs(ratio - 1).max() > 1e-6:
            same = float(np.std(ratio)) < 1e-9
            case.add(
                "S6" if same else "X1", "evidence.rows", low=float(ratio.min()), high=float(ratio.max()), certain=False
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
            owner = copy.deepcopy(owner).half()
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
                        case.remarks.append(("N1", "remark.N1", {}, error.line))
                    return None
    except Exception as error:
        skip(case, "half", last_line(error))
    return None


@probe("training")
def training(case: Case) -> None:
    """In training mode with dropout the output is still numbers."""
    subject, owner = case.subject, case.subject.owner
    if not isinstance(owner, nn.Module) or subject.layout == "nc":
        return skip(case, "training", "no module")
    givens = [None, *case.notes.get("masks", [])]
    owner.train()
    try:
        for given in givens:
            before = subject(case.notes["inputs"], given).output
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
                        case.remarks.append(
                            ("X8", "remark.X8", {"low": float(rows.min()), "high": float(rows.max())}, None)
                        )
                        return None
    finally:
        owner.eval()
    return None


def _rows(weights: np.ndarray | None) -> np.ndarray | None:
    return None if weights is None else weights.sum(-1)


@probe("second call")
def second_call(case: Case) -> None:
    """Nothing is remembered from the first call that the second one with other sizes would need anew."""
    subject = case.subject
    if subject.watched_weights() or subject.layout not in ("bhnd", "bnc") or subject.owner is None:
        return skip(case, "second call", "has weights of one width")
    try:
        wider = copy.copy(subject)
        wider.width = subject.width + 4
        inputs = wider.draw(8)
        late = wider(inputs).output
        fresh_owner = copy.deepcopy(case.notes.get("fresh"))
        if fresh_owner is None:
            return None
        fresh = copy.copy(wider)
        fresh.owner = fresh_owner
        fresh.function = (
            fresh_owner if isinstance(subject.function, nn.Module) else getattr(fresh_owner, subject.function.__name__)
        )
        early = fresh(inputs).output
    except (UserError, Exception):
        return skip(case, "second call", "can't be called with another width")
    difference = float(np.abs(late - early).max() / size_of(early))
    if difference > 1e-9:
        case.add("S8", change=difference, first=subject.width, second=wider.width)
    return None


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
    if not isinstance(owner, nn.Module) or watched is None or match is None or subject.layout in ("bhnd", "bnhd"):
        return skip(case, "inventory", "no weights")
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


@probe("rotary")
def rotary_counts(case: Case) -> None:
    """Rotary positions that turn q and k alike at every place change nothing at all."""
    text = case.facts.get("segment_text", "")
    if case.match is None or case.match.variant.ids or case.match.base.rotary or case.subject.layout != "bnc":
        return skip(case, "rotary", "no rotary positions")
    call = re.search(r"=\s*[\w.]*(rotary|rope|apply_rot)\w*\(", text, re.IGNORECASE)
    if (
        call
        and not re.search(r"if\s+.*(rope|rotary|freqs|cos)", text)
        and not any(
            r in ("frequencies", "positions") for p, r in case.subject.roles.items() if p not in case.subject.fixed
        )
    ):
        case.add("R5", "evidence.R5")
    return None


@probe("cost")
def cost(case: Case) -> None:
    """E1: right but slow: a triangle built in every call, a Python loop over heads."""
    if line := case.facts.get("mask_built_in_forward"):
        case.remarks.append(("E1", "remark.E1.mask", {}, line))
    if line := case.facts.get("loop_over_heads"):
        case.remarks.append(("E1", "remark.E1.loop", {}, line))


@probe("dropout")
def dropout(case: Case) -> None:
    """nn.Dropout() drops half of everything: worth a word."""
    owner = case.subject.owner
    if isinstance(owner, nn.Module) and "dropout" not in case.subject.chosen:
        heavy = [n for n, m in owner.named_modules() if isinstance(m, nn.Dropout) and m.p == 0.5]
        if heavy and re.search(r"Dropout\(\s*\)", case.facts.get("text", "")):
            case.remarks.append(("T3", "remark.dropout", {"names": ", ".join(heavy)}, None))


def causal_name(case: Case, name: str) -> bool:
    """Whether the name, or the file around it, says that tokens must not see what comes after."""
    if case.subject.declared.get("causal"):
        return True
    if re.search(r"causal|autoregress|gpt|languagemodel|masked_?(self|multi)|decoder_?only", name.lower()):
        return True
    text = case.facts.get("text", "")
    return (
        bool(re.search(r"def generate\(", text))
        and not case.subject.crosses
        and not re.search(r"encoder|cross|vit|bert", name.lower() + text[:0])
    )
