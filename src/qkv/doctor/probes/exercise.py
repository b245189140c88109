"""What of the code was never run: flags are set the other way until it runs, and what is left is listed as not checked."""

import contextlib
import copy
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import nn

from ...i18n import _
from ..case import Case
from ..source import coverage
from ..source.file import Source
from ..source.imports import project_names
from ..subject.errors import CannotRun, UserError
from ..subject.formats import SHAPES
from ..subject.guess import meaning
from ..subject.search import find_subject
from ..subject.subject import Subject
from ..subject.values import parameters_of
from . import comparison, structure
from .trials import batch_of, hidden, is_right, patterns, spared, tensor_for, trial_of, view

Look = Callable[[Case], Case]
MOST_FLIPPED = 3  # flags that are set the other way
MOST_TOLD = 4  # blocks that are listed
# A loss, dropout (which has a probe of its own), and where it runs: no part of what attention computes.
ASIDE = re.compile(
    r"targets?|labels?|.*_labels|.*drop.*|(is_)?train(ing)?|is_cuda|cuda|is_available|is_scripting|is_tracing|is_exporting",
    re.I,
)
ASLEEP = re.compile(r"(is_)?train(ing)?|deterministic|eval(uation)?", re.I)  # the probe of training mode looks at these
HIDES = re.compile(
    r"(?=.*(mask|caus|triang|tril|triu|autoregress|look_?ahead))(?!.*(pad|_id\b)).*=True", re.I
)  # a flag that hides keys
BLOCK = re.compile(  # but block_size alone is a context, since nanoGPT
    r"(?!block(_?size)?$)((q|kv?|v|query|key)_?)?(block|chunk|bucket|tile)(_?size)?(_?(q|kv?|v|m|n|query|key))?|b[rc]",
    re.I,
)
SETS_UP = (
    "__init__",
    "reset_parameters",
    "_reset_parameters",
    "init_weights",
    "_init_weights",
    "extra_repr",
    "__repr__",
)


def exercise(case: Case, target: Any, source: Any, name: str, examined: Look) -> None:
    """Run what has not run yet, as far as a flag leads there; tell the rest."""
    if not isinstance(source, Source) or case.founds or case.says.library:
        return
    _masks_of_other_shapes(case, unrun(source, name))
    _in_blocks(case)
    _other_head_width(case, target)
    tried: set[str] = set()
    for _unused in range(MOST_FLIPPED):
        found = next(
            (f for block in unrun(source, name) for f in _flipped(case, target, block, source) if f[0] not in tried),
            None,
        )
        if found is None:
            break
        flag, subject = found
        tried.add(flag)
        case.flipped |= {p: v for p, v in subject.fixed.items() if isinstance(v, bool) and p not in case.subject.fixed}
        _look(case, flag, subject, examined)
        if case.founds:
            return
    left = unrun(source, name)
    for block in left[:MOST_TOLD]:
        case.miss(
            f"lines {block.first}",
            _("lines {first}–{last}, which no call reached ({condition})")
            if block.last > block.first
            else _("line {first}, which no call reached ({condition})"),
            first=source.place(block.first)[1],
            last=source.place(block.last)[1],
            condition=block.condition,
        )
    if len(left) > MOST_TOLD:
        case.miss("lines", _("{n} more blocks, which no call reached"), n=len(left) - MOST_TOLD)


def _masks_of_other_shapes(case: Case, blocks: list[coverage.CodeBlock]) -> None:
    """Hand a mask over with other axes, where code for them never ran (`if mask.dim() == 2`)."""
    looked = view(case, *case.lengths)
    for parameter, format_ in case.formats.items():
        if looked is None or format_.shape == "lengths" or not any(parameter in block.names for block in blocks):
            continue
        numbers = case.match is not None and looked.guess is not None and case.subject.layout != "ids"
        keeps = patterns(looked.n, looked.m, batch_of(looked))
        ran: dict[int, bool] = {}  # number of axes → whether one of that many is right
        for shape, name in itertools.product(SHAPES, ("right", "causal")):
            other = replace(format_, shape=shape)
            keep = spared(hidden(case), keeps[name])
            if len(shape) == len(format_.shape) or ran.get(len(shape)) or tensor_for(case, other, keep) is None:
                continue
            with contextlib.suppress(UserError):
                trial = trial_of(case, parameter, looked, other, keep)
                ran[len(shape)] = is_right(case, parameter, trial, looked, numbers, "memory" in case.subject.inputs)
        for axes in (axes for axes, right in ran.items() if not right):
            case.miss(
                f"mask {parameter} {axes}",
                _(
                    "the mask {parameter} with {axes} axes: it runs, and hides other keys than it should in every way that was tried"
                ),
                parameter=parameter,
                axes=axes,
            )


def _in_blocks(case: Case) -> None:
    """Attention that is computed in blocks is run with blocks of two keys, which gives the same with every mask."""
    subject = case.subject
    holders = [vars(subject.owner)] if isinstance(subject.owner, nn.Module) else []
    code = subject.function
    with contextlib.suppress(ValueError):  # `__getattr__` may return the object itself as `__wrapped__`
        code = inspect.unwrap(code)
    if inspect.isfunction(code):
        holders.append(code.__globals__)  # BLOCK = 64 beside a function
    own = [(space, n, space[n]) for space in holders for n in list(space) if _is_block(case, n, space[n])]
    arguments = {p.name: 2 for p in parameters_of(subject.function) if _is_block(case, p.name, p.default)}
    looked = view(case, *case.lengths)
    if not (own or arguments) or looked is None or case.match is None:
        return
    keeps = patterns(looked.n, looked.m, batch_of(looked)).values()
    masks: list[tuple[str, Any]] = [("", None)]
    for parameter, format_ in case.formats.items():
        masks += [(parameter, tensor_for(case, format_, spared(hidden(case), keep))) for keep in keeps]
    for parameter, mask in masks:
        if parameter and mask is None:
            continue
        masked_call = {parameter: mask} if parameter else {}
        with contextlib.suppress(UserError):
            whole = subject(looked.inputs, masked_call).output
            try:
                for space, name, _size in own:
                    space[name] = 2
                pieces = subject(looked.inputs, {**masked_call, **arguments}).output
            finally:
                for space, name, size in own:
                    space[name] = size
            if pieces.shape != whole.shape or not np.allclose(pieces, whole, rtol=0, atol=1e-5, equal_nan=True):
                alone = _("blocks of two ({names}): the output differs from the one with larger blocks")
                masked = _(
                    "blocks of two ({names}), with {parameter}: the output differs from the one with larger blocks"
                )
                names = ", ".join([*(name for _space, name, _size in own), *arguments])
                case.miss("blocks", masked if parameter else alone, names=names, parameter=parameter)
                return
    case.checked.append("chunks")


def _is_block(case: Case, name: str, size: Any) -> bool:
    """True if a number is named as the size of a block, and the code speaks of it."""
    return type(size) is int and size > 2 and bool(BLOCK.fullmatch(name)) and name in case.says.text


def _other_head_width(case: Case, target: Any) -> None:
    """Give the constructor another width of heads than the one that fits its other sizes, where it takes one."""
    subject = case.subject
    if not inspect.isclass(target) or case.asked.args is not None or case.match is None or not case.match.right:
        return
    widths = [p.name for p in parameters_of(target) if meaning(p.name) == "head" and p.name in subject.built]
    for parameter in widths[:1]:
        args = {parameter: 2 * case.match.at.head}
        with contextlib.suppress(CannotRun, UserError):
            built = find_subject(target, name=subject.name, space=case.space, sizes=subject.sizes, args=args, call=None)
            built.budget = subject.budget
            other = case.other(built)
            structure.lengths(other)
            structure.who_sees_whom(other)
            comparison.compare(other)
            if other.match is None or other.founds:
                text = _("{parameter}: with another value than the other sizes give, its numbers are not attention's")
                case.miss(f"argument {parameter}", text, parameter=parameter)


def unrun(source: Source, name: str) -> list[coverage.CodeBlock]:
    """The blocks of a definition, and of what it uses in its file, that never ran."""
    from ..source.trees import open_code

    coverage.settle(True)
    code = open_code(source)
    nodes = code.uses(name) if code is not None else []
    known = {*source.definitions, *project_names(source)}
    blocks = coverage.unrun(dict.fromkeys(nodes), source.loader.module.ran.ended)
    return [
        b
        for b in dict.fromkeys(blocks)
        if (b.function not in SETS_UP or b.builds & known) and not any(map(ASIDE.fullmatch, b.names))
    ]


def _flipped(case: Case, target: Any, block: coverage.CodeBlock, source: Source) -> Iterator[tuple[str, Subject]]:
    """The same with a flag of the block's condition set the other way: of the call, of the constructor, of the object."""
    subject = case.subject
    for parameter in parameters_of(subject.function):
        for word in _words(parameter.name, block.condition):
            other = copy.copy(subject)
            other.fixed = {**subject.fixed, parameter.name: word}
            yield f"{parameter.name}={word!r}", other
        known = parameter.name in subject.fixed or ASLEEP.fullmatch(parameter.name)
        if parameter.name in block.names and _is_flag(parameter) and not known:
            for before in [case.flipped, {}] if case.flipped else [{}]:  # a block within another needs both flags
                other = copy.copy(subject)
                other.fixed = {**subject.fixed, **before, parameter.name: not parameter.default}
                yield ", ".join(f"{p}={v}" for p, v in {**before, parameter.name: not parameter.default}.items()), other
    if inspect.isclass(target) and case.asked.args is None:
        for parameter in parameters_of(target):
            flag = [not parameter.default] if parameter.name in block.names and _is_flag(parameter) else []
            for choice in [*_words(parameter.name, block.condition), *flag]:
                args = {parameter.name: choice}
                try:
                    other = find_subject(
                        target, name=subject.name, space=case.space, sizes=subject.sizes, args=args, call=None
                    )
                except CannotRun:
                    continue
                yield f"{parameter.name}={choice!r}", other
    if inspect.isclass(target) and re.search(r"hasattr\([^)]*scaled_dot_product_attention", source.text):
        built = None
        with _no_kernel(), contextlib.suppress(CannotRun):
            built = find_subject(
                target, name=subject.name, space=case.space, sizes=subject.sizes, args=case.asked.args, call=None
            )
        if built is not None:
            yield "no scaled_dot_product_attention", built
    for path, part in subject.owner.named_modules() if isinstance(subject.owner, nn.Module) else ():
        for attribute in sorted(block.names):
            value = vars(part).get(attribute, ...)
            asked = block.condition.endswith(f"if self.{attribute}")  # a configuration may have answered None
            if (isinstance(value, bool) or (value is None and asked)) and attribute != "training":
                other = copy.copy(subject)
                other.owner = copy.deepcopy(subject.owner)
                bound = getattr(subject.function, "__name__", "")
                other.function = getattr(other.owner, bound) if inspect.ismethod(subject.function) else other.owner
                setattr(other.owner.get_submodule(path), attribute, not value)
                yield f"{attribute}={not value}", other


def _words(name: str, condition: str) -> list[str]:
    """The words that a condition compares an argument, or the attribute of its name, with.

    >>> _words("mask", "if mask == 'subsequent'"), _words("kind", "if self.kind in ('dot', 'general')"), _words("n", "if n == 1")
    (['subsequent'], ['dot', 'general'], [])
    """
    compared = re.findall(rf"\b{re.escape(name)} (?:==|in) ([\[({{]?['\"].*?)(?= and | or |$)", condition)
    return [word for part in compared for word in re.findall(r"['\"]([\w.+-]+)['\"]", part)]


@contextlib.contextmanager
def _no_kernel() -> Iterator[None]:
    """A torch without its own kernel of attention, as code asks for that goes another way then."""
    kernel = F.scaled_dot_product_attention
    del F.scaled_dot_product_attention
    try:
        yield
    finally:
        F.scaled_dot_product_attention = kernel


def _is_flag(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.default, bool) or (parameter.default is None and "bool" in str(parameter.annotation))


def _look(case: Case, flag: str, subject: Subject, examined: Look) -> None:
    """Examine it so; what is found counts if the numbers prove it, else it is only told."""
    subject.budget = case.subject.budget
    try:
        inputs = subject.draw()
        output = subject(inputs).output
    except UserError:
        return  # the lines stay in the list of those that never ran
    if HIDES.fullmatch(flag) and _same(case.subject, inputs, output):
        case.miss(f"with {flag}", _("what {flag} is for: the output is the same with it and without it"), flag=flag)
    causal = True if "caus" in flag and flag.endswith("True") else case.asked.causal
    other = examined(case.other(subject, replace(case.asked, causal=causal)))
    for found in other.founds:
        if found.certain and found.id[0] in "SXM":
            case.add(found.id, sentence=found.sentence, line=found.line, certain=True, **found.values)
    if other.founds and not case.founds:
        case.miss(f"with {flag}", _("it with {flag}, where something differs from attention"), flag=flag)
    known = {f"mask {parameter}" for parameter in case.formats}  # a flag may stand in for a mask
    for what, missed in other.unseen.items():
        if what not in case.unseen and what not in known:
            case.miss(f"with {flag}: {what}", _("with {flag}: {what}"), flag=flag, what=missed)
    case.checked.append(f"with {flag}")


def _same(subject: Subject, inputs: dict[str, Any], output: Any) -> bool:
    """Whether the subject as it was gives this output too."""
    with contextlib.suppress(UserError):
        before = subject(inputs).output
        return before.shape == output.shape and np.array_equal(np.nan_to_num(before), np.nan_to_num(output))
    return False
