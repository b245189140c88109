"""A doctor that only builds and calls what it is given, to test what surrounds the real one."""

import inspect

import torch

from qkv.doctor.report import Finding, Report
from qkv.i18n import unpacked


def check(
    target, *, source=None, name="", heads=None, causal=None, mask_true_means=None, args=None, call=None, operations=1e9
):
    """Right where the weights of each row add up to 1 on equal values; wrong elsewhere."""
    built = target(**(args or {})) if inspect.isclass(target) else target
    x = torch.randn(2, 5, 16)
    parameters = inspect.signature(built.forward if isinstance(built, torch.nn.Module) else built).parameters
    given = [x for parameter in parameters.values() if parameter.default is inspect.Parameter.empty]
    output = built(*given)
    sane = torch.isfinite(output).all() and torch.softmax(torch.zeros(2), 0).tolist() == [0.5, 0.5]
    adapted = {"kind": "positions", "called": f"{name}({len(given)})", "heads": heads, "args": args or {}}
    if sane:
        return Report(name, "right", adapted=adapted)
    line = source.segment(name)[0] if source is not None else 1
    return Report(
        name,
        "wrong",
        [Finding("X5", unpacked({"en": "the output is not finite", "zh": "输出不是有限的数"}), line)],
        adapted=adapted,
    )
