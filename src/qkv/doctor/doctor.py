"""The doctor: builds and calls what it was given, compares, probes, and names the mistakes.

    from qkv.doctor import check
    print(check(MyMultiHeadAttention))              # or an object, or a function of q, k, v

In reading order: guess, building, adapt (how to run it), capture, match, oracle, variants (its numbers), masking, probes,
modules, block, cached, positions (what else can be wrong), replay, lines (where), report; mistakes/ is the catalogue.
"""

import ast
import contextlib
import copy
import difflib
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from ..words import Message, _
from . import replay
from .case import Case, Found, find_subject
from .mistakes.training import Crashes
from .places import locate
from .probes import block, cached, changes, comparison, masking, modules, positions, scores, structure, surroundings
from .report import Finding, Remark, Report
from .source.file import Source
from .subject import makers
from .subject.adapt import input_widths
from .subject.building import declared
from .subject.guess import Sizes, meaning
from .subject.subject import OPERATIONS, Budget, CannotRun, Spent, Subject, UserError, copied, parameters_of, settings

assert modules.PROBES.keys() >= set(changes.ORDER.replace("\n", "").split("|"))  # each is entered by its file
# What is looked at in turn, for what the budget leaves out.
LOOKS = {
    "cache": _("its cache"),
    "inputs": _("whether every input counts"),
    "flags": _("its flags the other way"),
    "masks": _("its masks"),
    "memory": _("attention to a memory"),
    "numbers": _("the numbers, one by one"),
    "parts": _("the parts that it is made of"),
    "probes": _("the probes that change one thing at a time"),
    "wiring": _("residuals and norms"),
}
CANNOT = {
    "build": _('could not build {name}: {reason}. Say how: --args "d_model=64, num_heads=8"'),
    "call": _(
        'could not call {name}: {reason} (line {line}). It was given {given}. Say what its arguments are: --call "q=first, mask=second", or how it is built: --args "d_model=64, num_heads=8"'
    ),
    "endless": _("could not call {name}: line {line} calls itself without end"),
    "forward": _("{name} has no forward method: there is nothing to call"),
    "names": _("--call names an argument that {name} does not have; it has: {reason}"),
}
FREE = (3, 5, 7, 2, 9, 11, 13)  # lengths for an object that came with sizes of its own


def check(
    target: Any,
    *,
    source: Any = None,
    name: str = "",
    heads: int | None = None,
    causal: bool | None = None,
    mask_true_means: str | None = None,
    args: dict[str, Any] | None = None,
    call: dict[str, str] | None = None,
    operations: float = OPERATIONS,
) -> Report:
    """Examine a class, an object or a function that should be attention, a layer around it, or its positions.

    target: with a class, `args` are its constructor's arguments (guessed where they aren't given).
    heads, causal, mask_true_means ("keep" or "block"), call ({"q": "first_argument"}): what can't be guessed.
    operations: what running it may cost, estimated from its sizes. Past that no further probe is begun, and the report
    says which were left out: the verdict is then "partly", never "right". No clock is read, so a busy machine gives the
    same answer. The source, if it isn't given, is found by Python's own means; without it lines and fixes are left out.
    """
    name = name or getattr(target, "__name__", type(target).__name__)
    source = source if source is not None else surroundings.source_of(target)
    options: dict[str, Any] = {
        "heads": heads,
        "causal": causal,
        "mask_true_means": mask_true_means,
        "args": args,
        "call": call,
    }
    label = f"{source.path.name}:{name}" if source is not None and getattr(source, "path", None) else name
    states = torch.get_rng_state(), np.random.get_state()
    try:
        report = _diagnose(target, source, name, label, options, Budget(operations))
        report.findings[:] = _proved(report.findings, target, source, name, options, operations)
        return report
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])


def _proved(
    findings: list[Finding], target: Any, source: Any, name: str, options: dict[str, Any], operations: float
) -> list[Finding]:
    """Each with its patch only where it cures; then what shows only in the mended file: one mistake may hide another."""
    ids = {finding.id for finding in findings}
    proved, behind = [], list[Finding]()
    for finding in findings:
        patched = source.edited(finding.edits) if finding.diff else None
        again = _again(target, patched, name, options, Budget(operations)) if patched is not None else None
        left = again.findings if again is not None else []
        new = [one for one in left if one.id not in ids]
        shown = [_behind(one, finding, source, patched) for one in new]
        cured = again is not None and again.verdict != "unknown" and finding.id not in {one.id for one in left}
        if cured and None not in shown:
            behind += [one for one in shown if one is not None and one.certain]
        proved.append(finding if cured and None not in shown else replace(finding, diff="", edits=()))
    return proved + list({one.id: one for one in behind}.values())


def _again(target: Any, patched: Source, name: str, options: dict[str, Any], budget: Budget) -> Report | None:
    """What the patched file, loaded and looked at anew, has."""
    try:
        if inspect.isclass(target) or inspect.isroutine(target):
            mended = patched.load(name)
        else:  # an object keeps its weights and gets the methods of the mended class
            mended = _copied(target)
            mended.__class__ = patched.load(type(target).__qualname__)
        return _diagnose(mended, patched, name, "", options, budget)
    except Exception:
        return None


def _behind(one: Finding, first: Finding, source: Source, patched: Source | None) -> Finding | None:
    """What shows once the first mistake is mended, on its line of the file as it is; None if the patch itself did it."""
    assert patched is not None
    where = (one.line or 0) + (patched.starts[one.cell - 1] if one.cell else 0)
    blocks = difflib.SequenceMatcher(None, patched.lines, source.lines, autojunk=False).get_matching_blocks()
    line = next((b + where - a for a, b, size in blocks if a < where <= a + size), None)
    if one.line and line is None:  # on a line of the patch: a mistake beside it has an expression of its own there
        shift, written = 0, []
        for begin, end, new in sorted(first.edits):
            written.append((begin + shift, begin + shift + len(new)))
            shift += len(new) - (end - begin)
        apart = one.edits and not any(b < end and begin < e for b, e, _new in one.edits for begin, end in written)
        if not apart or patched.text.count("\n") != source.text.count("\n"):
            return None
        line = where
    cell, shown = source.place(line) if line else (None, None)
    evidence = Message(_("once that is mended ({first}): {evidence}"), first=first.name, evidence=one.evidence)
    code = source.line(line).strip()
    return replace(one, evidence=evidence, line=shown, cell=cell, code=code, diff="", edits=())


def _diagnose(
    target: Any, source: Any, name: str, label: str, options: dict[str, Any], budget: Budget, whole: bool = True
) -> Report:
    facts = surroundings.facts(source, name)
    space = surroundings.around(surroundings.space_of(target, source), source)
    special = positions.examine(target, name, space, facts, options)
    if special is not None:
        return _report(special, source, name, label)
    owner = _copied(target)
    try:
        subject, _ = find_subject(
            owner,
            name=name,
            space=space,
            sizes=_sizes(owner, options),
            args=options["args"],
            call=options["call"],
            source=source,
        )
    except CannotRun as problem:
        if surroundings.own_fault(problem, source):
            found = Found("W1", Crashes.evidence[""], {"error": problem.reason}, problem.line)
            finding = _finding(found, source, name, {})
            return Report(label, "wrong", [finding], adapted={"tried": problem.tried[:6]})
        return _cannot(problem, name, label)
    if options["heads"]:
        subject.declared["heads"] = subject.chosen["heads"] = options["heads"]
    subject.budget = budget
    case = Case(subject, facts, options, space)
    case.notes["source"] = source
    facts["discovered"] = masking.discovered(subject)
    subject.roles |= dict.fromkeys(facts["discovered"], "mask")
    if subject.masks and isinstance(source, Source) and not facts.get("library"):
        case.made = makers.masks(source, name)
        case.handed = makers.handed(source, name.split(".")[0], list(subject.roles), subject.masks)
    surroundings.pad_ids(case, source)
    examined(case)
    if case.notes.get("apart") and not case.founds:
        if (special := positions.alone(target, name, space, facts)) is not None:
            return _report(special, source, name, label)
        text = Message("{name} is no attention: no token's output depends on another token", name=name)
        return Report(label, "unknown", problem=text, adapted={**_adapted(case), "kind": "no attention"})
    looks: dict[str, Callable[[Case], None]] = {
        "memory": _with_memory,
        "flags": partial(_other_way, target=target),
        "parts": partial(_parts, source=source, budget=budget),
    }
    _looked(case, looks if whole else {"memory": _with_memory})
    return _report(case, source, name, label)


def examined(case: Case) -> Case:
    """Every look at one subject that runs; those that the budget leaves no room for are told."""
    case.notes["fresh"] = _fresh(case.subject)
    _looked(
        case,
        {
            "numbers": _numbers,
            "inputs": partial(changes.run_probes, only=["every input counts"]),
            "masks": masking.examine_masks,
            "probes": changes.run_probes,
            "wiring": block.examine,
            "cache": cached.examine,
        },
    )
    if case.match is None and not case.founds:
        case.miss(
            "numbers",
            _(
                "the numbers, one by one: they are those of no known form of attention (something else happens to q, k or v)"
            ),
        )
    return case


def _looked(case: Case, looks: dict[str, Callable[[Case], None]]) -> None:
    left = list(looks)
    try:
        for name, look in looks.items():
            look(case)
            left.remove(name)
    except Spent:
        for name in left:
            case.miss(
                name,
                _("{what}: it is too large for that; make it smaller (--args), or in Python pass operations=…"),
                what=Message(LOOKS[name]),
            )


def _numbers(case: Case) -> None:
    subject = case.subject
    structure.lengths(case)
    structure.who_sees_whom(case)
    structure.layout(case)
    comparison.compare(case)
    case.notes["heads"] = case.match.at.heads if case.match else subject.declared.get("heads") or subject.sizes.heads
    case.notes["causal_name"] = changes.causal_name(case, subject.name)
    structure.left_out(case)
    comparison.few_keys(case)
    scores.examine(case)


def _with_memory(case: Case) -> None:
    """Attention that may also take a memory is examined with one too."""
    subject = case.subject
    optional = [p for p, r in subject.roles.items() if r == "memory?" and p != case.notes.get("cache")]
    for parameter in case.facts.get("unused_params", []):  # said to be vectors, and never read
        shaped = rf"{re.escape(parameter)}\W{{0,3}}[\[(]\s*\w+\s*,\s*\w+\s*,\s*\w+\s*[\])]"
        if subject.roles.get(parameter) == "" and re.search(shaped, case.facts.get("docstring", "")):
            case.add("C1", parameter=parameter)
    if not optional or case.founds:
        return
    refused = False  # by a line of its own: built without the part that would listen to it
    for width, widths in input_widths(subject.owner, subject.sizes, {optional[0]: "memory"}, subject.chosen):
        crossing = copy.copy(subject)
        crossing.roles = {**subject.roles, optional[0]: "memory"}
        crossing.width, crossing.widths = width, widths
        try:
            crossing(crossing.draw(n=crossing.sizes.queries, m=crossing.sizes.keys))
        except UserError as error:
            refused = refused or isinstance(error.error, ValueError | NotImplementedError | AssertionError)
            continue
        other = examined(Case(crossing, case.facts, case.options, case.space, made=case.made))
        if other.has("C1") and optional[0] not in case.facts.get("unused_params", []) and not _crosses_by_name(case):
            return  # built without the part that would listen to it
        for found in other.founds:
            if found.id not in ("P1", "T6", "M14", "C3", "M3"):
                case.add(found.id, sentence=found.sentence, line=found.line, certain=found.certain, **found.values)
        for what, missed in other.unseen.items():
            if what == "cache":
                continue  # looked at without a memory already
            case.miss(f"memory: {what}", _("with a memory given: {what}"), what=missed)
        case.checked.append("with a memory")
        return
    if not refused:
        case.miss(
            "memory", _("attention to {parameter}: no {parameter} was found that it takes"), parameter=optional[0]
        )


def _crosses_by_name(case: Case) -> bool:
    return bool(re.search(r"cross|enc_?dec|encoder_?decoder", case.subject.name, re.I))


CAUSAL = re.compile(
    r"(is_|use_)?(causal|autoregress\w*|masked|mask_future|unidirectional)(_mask|_attn|_attention)?", re.I
)


def _other_way(case: Case, target: Any) -> None:
    """A constructor's flag that is off by default is switched on: then a token must not see what comes after it."""
    if not inspect.isclass(target) or case.options["args"] is not None or case.founds:
        return
    flags = [p.name for p in parameters_of(target) if p.default is False and CAUSAL.fullmatch(p.name)]
    for flag in flags[:1]:
        with contextlib.suppress(CannotRun):
            subject, _unused = find_subject(
                target, name=case.subject.name, space=case.space, sizes=case.subject.sizes, args={flag: True}, call=None
            )
            subject.budget = case.subject.budget
            other = examined(Case(subject, case.facts, {**case.options, "causal": True}, case.space, made=case.made))
            for found in other.founds:
                if found.id[0] in "MX":
                    case.add(found.id, sentence=found.sentence, line=found.line, certain=found.certain, **found.values)
            case.checked.append(f"with {flag}=True")


# What a part alone can't be blamed for: the whole around it projects, hands over masks, says which axis is which.
OF_THE_WHOLE = {"P3", "P4", "M14", "C1", "H9", "M20", "R3", "W1", "C5", "T6"}


def _parts(case: Case, source: Any, budget: Budget) -> None:
    """A whole is not right while a part of it is wrong: the classes of the same file that it is built of, one by one."""
    owner = case.subject.owner
    if not isinstance(owner, nn.Module) or not isinstance(source, Source) or case.founds or case.facts.get("library"):
        return
    mine = {type(part).__name__: type(part) for part in owner.modules() if type(part) is not type(owner)}
    for name, part in mine.items():
        if not isinstance(source.definitions.get(name), ast.ClassDef) or part.forward is nn.Module.forward:
            continue
        plain = dict.fromkeys(case.options)
        report = _diagnose(part, source, name, name, plain, budget, whole=False)
        case.inner += [one for one in report.findings if one.certain and one.id not in OF_THE_WHOLE]
        if case.inner:
            return


def _copied(target: Any) -> Any:
    """An object that someone handed over is not worked on: a copy is."""
    if inspect.isclass(target) or inspect.isroutine(target):
        return target
    try:
        return copied(target)
    except Exception:
        return target


def _sizes(target: Any, options: dict[str, Any]) -> Sizes:
    """Ours, unless an object came with its own: then lengths and a batch that none of its sizes equals."""
    args = {k: v for k, v in (options["args"] or {}).items() if isinstance(v, int)}
    taken = set(args.values())
    heads = options["heads"] or next((v for k, v in args.items() if meaning(k) == "heads"), None)
    width = next((v for k, v in args.items() if meaning(k) == "width"), None)
    if isinstance(target, nn.Module):
        taken |= {size for p in target.parameters() for size in p.shape}
        heads = heads or declared(target).get("heads")
        linear = next((m for m in target.modules() if isinstance(m, nn.Linear)), None)
        width = width or (linear.in_features if heads and linear is not None else None)
    plain = Sizes()
    if not taken and heads is None:
        return plain
    if heads:
        taken |= {heads, *([width // heads] if width else [])}
    batch, queries, keys = [n for n in FREE if n not in taken][:3]
    head = width // heads if heads and width and width % heads == 0 else plain.head
    window = next(
        (v for k, v in (options["args"] or {}).items() if meaning(k) == "window" and isinstance(v, tuple)), None
    )
    if window is not None:  # a window of an image: as many tokens as it has places
        queries = int(np.prod(window))
    return Sizes(batch=batch, queries=queries, keys=keys, heads=heads or plain.heads, head=head)


def _fresh(subject: Subject) -> Any:
    """One that was never called."""
    try:
        with settings(subject.dtype):
            made = subject.make() if subject.make is not None else None
        if isinstance(made, nn.Module) and any(isinstance(p, nn.UninitializedParameter) for p in made.parameters()):
            return None  # its layers learn their width from the first call
        return made.eval() if isinstance(made, nn.Module) else made
    except Exception:
        return None


def _report(case: Case, source: Any, name: str, label: str) -> Report:
    facts = {**case.facts, "unused": case.notes.get("unused", [])}
    findings = [
        _finding(found, source, name, facts, case) for found in sorted(case.founds, key=lambda f: not f.certain)
    ]
    findings += case.inner
    unseen = [Remark(what, missed) for what, missed in case.unseen.items()]
    verdict = "wrong" if findings else "partly" if unseen else "right"
    return Report(label, verdict, findings, case.remarks, _adapted(case), unseen=unseen)


def _finding(found: Found, source: Any, name: str, facts: dict[str, Any], case: Case | None = None) -> Finding:
    plain = {k: v for k, v in found.values.items() if isinstance(v, (int, float, str))}
    place = locate(found.id, source, name, {**facts, **plain}) if source is not None else None
    line = found.line or (place.line if place else None)
    if case is not None and isinstance(source, Source) and found.line is None and not (place and place.diff):
        line = replay.line_of(case, found.id, str(source.path)) or line
    diff: Any = place.diff if place and place.line == line else ""
    cell, shown, code = None, line, ""
    if line is not None and hasattr(source, "place"):
        cell, shown = source.place(line)
        code = source.line(line).strip()
    return Finding(
        found.id,
        Message(found.sentence, **found.values),
        shown,
        cell,
        diff,
        found.certain,
        code,
        getattr(diff, "edits", ()),
    )


def _adapted(case: Case) -> dict[str, Any]:
    """How it was built and called, for the last line of a report and for --json."""
    subject, match = case.subject, case.match
    called = [p for p, r in subject.roles.items() if r in ("x", "q", "k", "v", "memory") or p in subject.fixed]
    adapted = {
        "kind": case.notes.get("kind", "attention"),
        "called": f"{subject.name}({case.notes.get('called') or ', '.join(called)})",
        "built": subject.built,
        "heads": match.at.heads if match else None,
        "compared": f"{match.error:.1e}" if match else None,
        "mask": case.mask_format,
        "layout": subject.layout,
        "precision": subject.dtype,
        "checked": list(dict.fromkeys(case.checked)),
        "skipped": case.skipped,
    }
    return {key: value for key, value in adapted.items() if value not in (None, "")}


def _cannot(problem: CannotRun, name: str, label: str) -> Report:
    values = {"name": name, "reason": problem.reason or "?", "line": problem.line or "?", "given": problem.given or "?"}
    text = Message(CANNOT[problem.stage], **values)
    return Report(label, "unknown", problem=text, adapted={"tried": problem.tried[:6]})
