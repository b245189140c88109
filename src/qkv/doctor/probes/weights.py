"""Probes of the weights around attention: are they known, used, trained, the same at every call?"""

import contextlib
import re
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...i18n import _
from ..case import Case
from ..mistakes.projections import FromTheKey
from ..numbers.guesses import letter_of
from ..source.uses import reached_from_outside
from ..subject import leavings, usage
from ..subject.capture import Capture, named
from ..subject.errors import UserError, line_of
from ..subject.guess import Weights, role
from ..subject.subject import Fitted
from ..subject.values import arrays, settings, to_numpy
from .probe import probe, size_of, skip


@probe("repeat")
def repeatable(case: Case) -> None:
    """The same call in eval mode gives the same numbers twice."""
    subject, inputs = case.subject, case.inputs
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
        elif _dropout_explains(case):
            case.add("T3", "random", change=difference)
        elif _fresh_weights(case, quiet.seen) and subject.owner is None:
            case.miss(
                "repeat", _("the same call twice: its weights are drawn anew in every call, as in a demonstration")
            )
        elif _fresh_weights(case, quiet.seen):
            case.add("T1", "random", kind="tensor")
        elif subject.framework == "numpy" or quiet.seen is not None:
            case.add("T3", "random", change=difference)


def _dropout_explains(case: Case) -> bool:
    """True if the numbers repeat once the object's own dropout rates, such as self.dropout = 0.1, are 0."""
    owner = case.subject.owner
    rates = {k: v for k, v in getattr(owner, "__dict__", {}).items() if "drop" in k.lower() and type(v) is float}
    try:
        for name in rates:
            setattr(owner, name, 0.0)
        one, two = (case.subject(case.inputs, seed=None, quiet=False).output for _ in range(2))
    except UserError:
        return False
    finally:
        for name, rate in rates.items():
            setattr(owner, name, rate)
    return bool(rates) and np.array_equal(one, two, equal_nan=True)


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
        return skip(case, "registered", _("no nn.Module"))
    hidden = [m for m in _hidden(owner) if next(m.parameters(recurse=False), None) is not None]
    if hidden:
        seen_all = sum(p.numel() for p in owner.parameters())
        missed = sum(p.numel() for m in hidden for p in m.parameters(recurse=False))
        inside = {id(child) for m in _hidden(owner) for child in m.children()}
        count = len({id(m) for m in _hidden(owner)} - inside)
        case.add("T2", count=count, missed=missed, known=seen_all)
        return None
    result = case.subject(case.inputs, watch=True)
    assert result.seen is not None
    state = case.subject.left.changed(owner) if case.subject.left is not None else set()  # filled by the call
    plain = [
        name
        for part in owner.modules()
        for name, given in vars(part).items()
        if isinstance(given, Tensor) and given.is_leaf and given.requires_grad
    ]
    for product in result.seen.products:
        weight = product.weight
        if not named(owner, weight) and (name := _kept_on(owner, weight)) and not _is_table(case, name):
            plain.append(name)
    plain = [name for name in plain if name not in state]
    if plain and not case.has("T1"):
        case.add(
            "T2", "tensor", names=", ".join(dict.fromkeys(plain)), known=sum(p.numel() for p in owner.parameters())
        )
    return None


def _is_table(case: Case, name: str) -> bool:
    """True if a plain tensor is the same whatever the seed, as a rotary table is: a weight would be drawn."""
    if case.subject.make is None:
        return False
    try:
        with settings(case.subject.dtype):
            first, other = (_attribute(case.subject.make(seed=seed), name) for seed in (0, 1))
    except Exception:  # it can't be built again
        return False
    return first is not None and other is not None and torch.equal(first, other)


def _attribute(owner: nn.Module, name: str) -> Tensor | None:
    """The first plain tensor of that name in a module or its parts."""
    values = (vars(part).get(name) for part in owner.modules())
    return next((value for value in values if isinstance(value, Tensor)), None)


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
    subject, inputs = case.subject, case.inputs
    if subject.layout in ("ids", "nc"):
        return skip(case, "inputs untouched", _("it takes ids, or one text at a time"))
    arguments = {p: subject.encode(inputs[r]) for p, r in subject.roles.items() if r in inputs}
    copies = {p: to_numpy(a) for p, a in arguments.items()}
    first = next(iter(inputs.values()))
    with contextlib.suppress(UserError):
        subject.run(arguments, None, first.shape, False, True, False, 0)
    for p, before in copies.items():
        if not np.array_equal(to_numpy(arguments[p]), before):
            case.add("N3", parameter=p)
    return None


@probe("every input counts")
def every_input_counts(case: Case) -> None:
    """Changing q, k, v or the memory alone changes the output."""
    subject, inputs = case.subject, case.inputs
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
    memory = names.get("memory", "")
    if "memory" in deaf and (role(memory).startswith("memory") or memory in case.says.unused_arguments):
        case.add("C1", parameter=memory)
    elif "memory" in deaf:  # taken for one because nothing else fitted, and read for something else
        text = _("what {parameter} is for: another one doesn't change the output")
        case.miss(f"argument {memory}", text, parameter=memory)
    elif deaf and deaf != ["x"]:
        unused = unused_weights(case) if isinstance(subject.owner, nn.Module) and subject.layout != "nc" else []
        case.add(
            "P2" if unused or _from_key(case, deaf[0]) else "P1",
            sentence=FromTheKey.evidence[""],
            parameter=", ".join(names[r] for r in deaf),
        )


def _from_key(case: Case, letter: str) -> bool:
    """Whether what is projected for q (or v) moves with the key."""
    subject, inputs = case.subject, case.inputs
    if "k" not in inputs or not isinstance(subject.owner, nn.Module):
        return False
    moved = {**inputs, "k": inputs["k"] * 0.5 + 0.1}
    one, two = (subject(i, watch=True).seen.products for i in (inputs, moved))
    return any(
        letter_of(named(subject.owner, a.weight)) == letter and not torch.equal(a.given, b.given)
        for a, b in zip(one, two, strict=False)
    )


@probe("every weight counts")
def every_weight_counts(case: Case) -> None:
    """Every projection gets a gradient."""
    subject, owner = case.subject, case.subject.owner
    if owner is None and (idle := [name for name in _idle(case) if letter_of(name)]):
        case.add("P1", "handed", unused=", ".join(idle))
        return None
    if not isinstance(owner, nn.Module) or subject.layout == "nc":
        return skip(case, "every weight counts", _("no weights"))
    unused = _without_templates(owner, unused_weights(case))
    case.unused = unused
    letters = {name: letter_of(name) for name in unused}
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
    if projections and reached_from_outside(case.source, case.subject.name, projections):
        text = _("what {weights} is for: it gets no gradient here, and other code uses it by its name")
        case.miss("weights", text, weights=", ".join(projections[:4]))
        return None
    if projections and len(kinds) < 3 and not case.has("P2", "C1", "X6"):
        used = ", ".join(dict.fromkeys(n for n in (case.match.guess.names if case.match else ()) if n))
        seen = subject(case.inputs, watch=True).seen
        ran = {named(owner, product.weight) for product in seen.products} if seen is not None else set()
        values: dict[str, Any] = {"unused": ", ".join(projections[:4]), "used": used or "?"}
        if set(projections) <= ran:
            case.add("P2", "thrown away", **values)
        else:
            case.add("P1", **values)
    if norms and not case.has("P1") and len(norms) <= 2 and "memory?" not in subject.roles.values():
        case.add("T6", "unused", unused=", ".join(norms))
    left = [n for n in unused if n in matrices]
    if left and not case.founds and "memory?" not in subject.roles.values():
        case.miss("weights", _("what {weights} is for: it gets no gradient"), weights=", ".join(left[:4]))
    return None


def _without_templates(owner: nn.Module, unused: list[str]) -> list[str]:
    """Leave out the weights of a module that is only there to be copied: none runs, and a copy of equal weights does.

    A second module of the same class has weights of its own, so one that was forgotten stays in the list.
    """
    modules = {name: module for name, module in owner.named_modules() if name and list(module.children())}
    idle = {
        name for name in modules if all(f"{name}.{each}" in unused for each, __ in modules[name].named_parameters())
    }

    def is_copied(name: str) -> bool:
        return any(
            type(modules[other]) is type(modules[name])
            and all(map(torch.equal, modules[name].parameters(), modules[other].parameters()))
            for other in modules.keys() - idle
        )

    templates = tuple(f"{name}." for name in idle if is_copied(name))
    return [name for name in unused if not name.startswith(templates)]


def _idle(case: Case) -> list[str]:
    """Of the weights that the file itself hands to a function in a dict, those that its output doesn't move with."""
    if not any(isinstance(given, Fitted | Weights) for given in case.subject.fixed.values()):
        return []
    function = case.subject.function

    def output(given: dict[str, Any]) -> list[np.ndarray]:
        return [to_numpy(one) for one in arrays(function(**leavings.copied(given)))]

    for call in usage.examples(case.source, case.subject.name):
        dicts = {name: one for name, one in call.given.items() if isinstance(one, dict)}
        try:
            before = output(call.given)
            return [
                str(key)
                for name, held in dicts.items()
                for key, one in held.items()
                if getattr(one, "ndim", 0) >= 2
                and leavings.same(output({**call.given, name: {**held, key: one * 0.5 + 0.1}}), before)
            ]
        except Exception:
            continue  # anybody's code: a call that can't be made again says nothing
    return []


def _beside(case: Case, name: str) -> bool:
    """A weight that stands beside the projections and is of their shape: `linears.1` beside `linears.0`."""
    assert case.match is not None
    owner = dict(case.subject.owner.named_parameters())
    used = [n for n in case.match.guess.names if n in owner]
    if re.search(r"emb|pos|rel|cross|enc|mem|out|fc|final|head\b|lm_|class", name.lower()):
        return False
    if len(set(case.match.guess.names)) == 3:
        return False  # q, k and v each have one of their own: what is left over is something else's
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
        result = subject(case.inputs, grad=True)
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
        with settings(subject.dtype), torch.enable_grad():  # whatever the code or its caller has set
            drawn = [torch.as_tensor(random.standard_normal(tuple(g.shape)), dtype=g.dtype) for g in graphs]
            torch.stack([(g * one).sum() for g, one in zip(graphs, drawn, strict=True)]).sum().backward()
    except RuntimeError as error:
        case.backward = error
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
        return skip(case, "gradient", _("no torch"))
    error = case.backward
    if error is None:
        try:
            givens = [None, *case.mask_examples]
            for given in givens:
                result = subject(case.inputs, given, grad=True)
                if result.graph is not None and result.graph.requires_grad:
                    with torch.enable_grad():
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
