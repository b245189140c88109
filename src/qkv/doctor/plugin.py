"""For a test of one's own: `assert_correct(MyAttention(64, 8))` fails with the whole diagnosis as its message."""

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn, overrides

from ..i18n import Listed, Notice, _, say


def assert_correct(target: Any, **options: Any) -> None:
    """Raises AssertionError, whose message is the report, where the target is wrong or could not be run.

    What is right as far as checked passes with a warning that says what was not. `options` are those of `check`: heads,
    causal, mask_true_means, args, call, operations. The target is left as it was.

    >>> import torch
    >>> def attention(q, k, v):
    ...     return torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1) @ v
    >>> assert_correct(attention)
    """
    __tracebackhide__ = True  # pytest shows the caller's line, not ours
    from .doctor import check

    with undisturbed(target):
        report = check(target, **options)
    if report.verdict == "partly":
        unseen = Listed((one.text for one in report.unseen), _("; "))
        warnings.warn(
            Notice(
                "assert_correct: {target} is right as far as checked; not checked: {unseen}",
                target=report.target,
                unseen=unseen,
            ),
            stacklevel=2,
        )
    elif not report.ok:
        advice = (
            "\n\n"
            + say(
                "assert_correct could not check it: pass what is missing, as in assert_correct(target, heads=8, "
                "args={{...}})"
            )
            if report.verdict == "unknown"
            else ""
        )
        raise AssertionError(f"{report}{advice}")


@contextmanager
def undisturbed(target: Any = None) -> Iterator[None]:
    """Everything as before afterwards: random numbers, grad mode, dtype, function modes, and the target's own state."""
    python, numbers, tensors = random.getstate(), np.random.get_state(), torch.get_rng_state()
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    depth = len(overrides._get_current_function_mode_stack())
    with _kept(target) if isinstance(target, nn.Module) else _nothing():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)
            torch.set_rng_state(tensors)
            while len(overrides._get_current_function_mode_stack()) > depth:
                overrides._pop_mode()
            torch.set_grad_enabled(grad)
            torch.set_default_dtype(dtype)


@contextmanager
def _kept(module: nn.Module) -> Iterator[None]:
    """The module's parameters, buffers, gradients and train/eval modes, put back where they were."""
    modes = [(one, one.training) for one in module.modules()]
    parameters = [(one, one.data, one.detach().clone(), one.grad, one.requires_grad) for one in module.parameters()]
    buffers = [
        (one, name, value, None if value is None else value.detach().clone())
        for one in module.modules()
        for name, value in one._buffers.items()
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, data, values, grad, needs in parameters:
                data.copy_(values)
                parameter.data = data
                parameter.grad, parameter.requires_grad = grad, needs
            for one, name, value, copy in buffers:
                if value is not None and copy is not None:
                    value.copy_(copy)
                one._buffers[name] = value
        for one, training in modes:
            one.training = training


@contextmanager
def _nothing() -> Iterator[None]:
    yield
