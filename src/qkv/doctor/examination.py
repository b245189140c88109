"""The doctor's task in the process that runs the user's code: load each name, examine it, send the report."""

import contextlib
import functools
import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

from ..i18n import Message, Problem, pip_install
from ..sandbox.audit import RULES, AuditHook
from ..sandbox.child_main import Send, limit_resources
from ..sandbox.guard import limit
from .isolated_check import place
from .report import Finding, Remark, Report
from .source.file import Source, read
from .source.loading import USUAL

FRAMEWORKS = (
    "tensorflow",
    "keras",
    "jax",
    "flax",
    "haiku",
    "mxnet",
    "paddle",
    "mindspore",
    "tinygrad",
    "mlx",
    "equinox",
)


def examine(request: dict[str, Any], send: Send) -> None:
    """A report per name that was asked for."""
    # The doctor is bound before any line of the user's runs.
    from .source import standins

    module, function = request["doctor"].split(":")
    check = getattr(importlib.import_module(module), function)
    limit_resources(request["gigabytes"])
    source = read(request["path"])
    sys.path.append(str(source.path.resolve().parent))
    originals = _Originals()
    guard = AuditHook(request["scratch"], has_kernel=request["confined"])
    needs_card = re.search(r"\b(cuda|mps|xpu)\b", source.text) is not None
    if needs_card:
        standins.forget_the_card()
    for name in request["names"]:
        send("begins", name=name)
        limit(request["seconds"], request["traces"])
        with guard, standins.OnCpu() if needs_card else contextlib.nullcontext():
            loaded = functools.partial(send, "loaded", name=name)
            report = _one(source, name, check, request, loaded, originals)
        report.target = f"{request['path']}:{name}"
        evidence = report.evidence.to_dict() if report.evidence else None
        send("report", name=name, report=located(report, source).to_dict(), evidence=evidence)


def _one(
    source: Source,
    name: str,
    check: Callable[..., Report],
    request: dict[str, Any],
    loaded: Callable[[], None],
    originals: "_Originals",
) -> Report:
    """The report on one name, whatever happens."""
    from .source import standins
    from .subject import subject

    replaced: list[str] = []
    standins.missed.clear()
    try:
        target = source.load(name)
        replaced = originals.restore()
        subject.between_calls = [lambda: replaced.extend(originals.restore())]
        loaded()
        report = check(target, source=source, name=name, **request["options"])
        if not isinstance(report, Report):
            raise TypeError(f"the doctor answered {type(report).__name__}")
    except BaseException as error:
        originals.restore(torch_too=True)
        report = Report(name, "unknown", problem=why(error, source, name))
    subject.between_calls = []
    report = _explained(report, source)
    replaced += originals.restore(torch_too=True)
    replaced = [r for r in replaced if re.search(rf"\b{r.rpartition('.')[2]}\b[^\n]*=[^=]", source.text)]
    if replaced:  # by the file itself, not by a package that it imports
        listed = ", ".join(list(dict.fromkeys(replaced))[:4])
        report.remarks.append(
            Remark(
                "patched",
                Message(
                    "The file replaces {names}. It ran with its own torch, and was judged with the original numbers.",
                    names=listed,
                ),
            )
        )
    if lines := [USUAL[name] for name in source.loader.supplied]:
        text = Message(
            "the file lacks {lines}: running it as it is ends in a NameError",
            lines=", ".join(f"`{line}`" for line in lines),
        )
        report.remarks.append(Remark("imports", text))
    if source.loader.guessed:
        listed = ", ".join(f"{key} = {value}" for key, value in source.loader.guessed.items())
        report.remarks.append(
            Remark(
                "guessed",
                Message(
                    "{names}: not known without running the rest of the file, so a small number was taken.",
                    names=listed,
                ),
            )
        )
    return report


def _explained(report: Report, source: Source) -> Report:
    """The report with the cause behind the error: an absent package, or a line of the file that was not run."""
    from .source import standins

    if standins.missed and report.verdict in ("wrong", "unknown"):
        package = sorted(standins.missed)[0]
        kept = [one for one in report.findings if not any(word in str(one.evidence) for word in standins.missed)]
        if not kept:
            return Report(report.target, "unknown", [], report.remarks, report.adapted, _absent(package))
        report.findings = kept
    name = re.search(r"name '(\w+)' is not defined", str(report.problem)) if report.problem else None
    if report.problem and name and name[1] in source.loader.failed:
        cause = source.loader.why(name[1])
        report.problem = Message("{problem}\n{cause}", problem=report.problem, cause=cause)
    return report


def _absent(package: str) -> Message:
    """What to do about a package that the code needs and that isn't here."""
    if package in FRAMEWORKS:
        return Message("It is written for {package}; qkv checks PyTorch and NumPy code.", package=package)
    return Message(
        "It needs the package {package}, which is not installed here. Install it ({command}) and check again.",
        package=package,
        command=pip_install(package),
    )


def why(error: BaseException, source: Source, name: str) -> Message:
    """Why something could not be run: what happened, at which line of the user's, and what to do."""
    from .source.loading import line_of, told

    root: BaseException = error
    while isinstance(root, Problem) and isinstance(root.__cause__, BaseException):
        root = root.__cause__
    seen: set[str] = set()
    while isinstance(root, NameError) and root.name in source.loader.failed and root.name not in seen:
        seen.add(root.name)
        root = source.loader.failed[root.name][0]
    package = _absent_package(root)
    if package:
        return _absent(package)
    if isinstance(error, NameError) and error.name in source.loader.failed:
        error = source.loader.why(error.name)
    if isinstance(error, Problem):
        return Message(error.sentence, **error.values)
    line = line_of(error, source)
    memory = isinstance(root, MemoryError) or "can't allocate memory" in told(root)
    if line is None and memory:  # while its weights were copied
        return Message(
            "It takes more memory than a check may take: {error}\nMake it smaller: --args.", error=told(error)
        )
    if line is None:
        return Message("The check itself failed, which is a mistake of qkv's: {error}", error=told(error))
    values = {"place": place(source, line), "code": source.line(line).strip()}
    if isinstance(root, SystemExit):
        return Message(
            "It calls sys.exit ({place}):\n  {code}\nTake that out of what it runs, and check again.", **values
        )
    if memory:
        return Message(
            "It asked for more memory than a check may take ({place}):\n  {code}\n{error}\nMake it smaller: --args.",
            error=told(root),
            **values,
        )
    if isinstance(root, PermissionError):
        return Message(
            "It was not permitted to do this ({place}):\n  {code}\n{error}\n{rules}",
            rules=Message(RULES),
            error=told(root),
            **values,
        )
    return Message(
        "It stopped with an error ({place}):\n  {code}\n{error}\n{advice}",
        error=told(error),
        advice=Message(
            'If it was built or called in a way you did not mean, say how: --args "dim=64,heads=8" for the '
            'constructor, --call "q=first,k=second" for which argument is which, --heads 8.'
        ),
        **values,
    )


def _absent_package(error: BaseException) -> str:
    """The package that an ImportError misses, if it is a package and not a file of the user's."""
    if not isinstance(error, ImportError) or not error.name or error.name.startswith("."):
        return ""
    text = error.msg or ""
    return error.name.split(".")[0] if "No module named" in text and "beside" not in text else ""


class _Originals:
    """The functions of torch, NumPy, Python and qkv as they were: a file that replaces them must not fool the doctor."""

    def __init__(self) -> None:
        import builtins
        import math

        import numpy
        import torch

        places: list[Any] = [builtins, math, json, os, time, numpy, numpy.linalg, numpy.random, torch, torch.nn]
        places += [torch.nn.functional, torch.nn.init, torch.Tensor, torch.nn.Module, torch.nn.Linear, torch.linalg]
        places += [torch.nn.Softmax, torch.nn.LayerNorm, torch.nn.Dropout, torch.autograd, torch._C._TensorBase]
        places += [module for key, module in sys.modules.items() if key.startswith("qkv.")]
        self.kept = [(one, {k: v for k, v in vars(one).items() if self._fixed(v)}) for one in places]
        self.names = [set(vars(one)) for one in places]

    @staticmethod
    def _fixed(value: Any) -> bool:
        return not isinstance(value, ModuleType) and (callable(value) or isinstance(value, float))

    def restore(self, *, torch_too: bool = False) -> list[str]:
        """Puts back what was replaced; gives the names of it.

        What the doctor counts with is put back after every call. torch is left as the file wants it until the end: a
        softmax that it replaces is the softmax that its attention has.
        """
        changed = []
        for (owner, kept), names in zip(self.kept, self.names, strict=True):
            if not torch_too and (getattr(owner, "__module__", "") or owner.__name__).startswith("torch"):
                continue
            now = vars(owner)
            for name in [one for one in now if one not in names] if isinstance(owner, type) else []:
                if hasattr(super(owner, owner), name):  # a new method that hides the one it inherits
                    delattr(owner, name)
                    changed.append(f"{owner.__name__}.{name}")
            for name, value in kept.items():
                if now.get(name) is not value:
                    with contextlib.suppress(TypeError, AttributeError):  # types of C cannot have been changed either
                        setattr(owner, name, value)
                        changed.append(f"{owner.__name__}.{name}")
        return changed


def located(report: Report, source: Source) -> Report:
    """The report with the text of each line, and lines counted within their cell."""

    def finding(one: Finding) -> Finding:
        if one.line is None or one.cell is not None:
            return one
        cell, line = source.place(one.line)
        return replace(one, code=one.code or source.line(one.line), cell=cell, line=line)

    def remark(one: Remark) -> Remark:
        if one.line is None or one.cell is not None:
            return one
        cell, line = source.place(one.line)
        return replace(one, cell=cell, line=line)

    report.findings = [finding(one) for one in report.findings]
    report.remarks = [remark(one) for one in report.remarks]
    return report
