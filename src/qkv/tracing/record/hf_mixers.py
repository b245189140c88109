"""Observe the mixers of `transformers` models: layers that keep a state instead of attending.

Their code calls one of two kernels by name, a scan (Mamba-2, Bamba, Falcon-H1, Nemotron-H, Zamba 2, …) or the gated delta
rule (Qwen3-Next, Qwen3.5, OLMo Hybrid, …). Which modules do is read from that code, not from a list of classes. While there
are listeners, the name refers to a wrapper of the kernel. Its arguments become a `Mixing`, from which the whole output is
computed again as a check.

B batch, N tokens, H heads, P value width, G groups of heads that share q and k, D key width.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...mixers.calls import Mixing
from ...mixers.delta import unit
from ...mixers.forms import CHUNK
from .hf_attention import OTHER_MODALITIES, PretrainedModel, Untraceable, close, replacing, subscribed

KernelArguments = dict[str, Any]  # a kernel's arguments by name
OnCall = Callable[[str, Mixing], None]  # called with a module's name in the model and its call


def _from_mamba(arguments: KernelArguments) -> tuple[Mixing, Tensor]:
    """Return Mamba-2's scan as a call, q = C, k = B, v = Δ·x, log γ = Δ·A, and D·x, which is added to its output."""
    x, step, skip = (
        arguments["hidden_states"].float(),
        arguments["dt"],
        arguments.get("D"),
    )  # (B, N, H, P), (B, N, H), (H,)
    if arguments.get("dt_bias") is not None:
        step = step + arguments["dt_bias"].to(step.dtype)
    step = F.softplus(step) if arguments.get("dt_softplus") else step
    if arguments.get("dt_limit") is not None:
        step = step.clamp(*arguments["dt_limit"])
    step = step.float()
    v, decay = x * step[..., None], step * arguments["A"].float()
    q, k = (arguments[name].float().transpose(1, 2) for name in "CB")  # (B, G, N, D)
    initial = arguments.get("initial_states")
    state = None if initial is None else initial.float().transpose(2, 3)  # (B, H, D, P)
    skip_output = torch.zeros_like(x) if skip is None else skip.float()[..., None] * x
    return Mixing(q, k, v.transpose(1, 2), decay.transpose(1, 2), 1.0, state=state), skip_output


def _from_delta_rule(arguments: KernelArguments) -> tuple[Mixing, Tensor]:
    """Return the gated delta rule as a call, q and k once per value head, and 0, which is added to its output."""
    q, k, v, decay, write = (
        arguments[name].float().transpose(1, 2) for name in ("query", "key", "value", "g", "beta")
    )  # (B, H, N, ·), (B, H, N)
    if arguments.get("use_qk_l2norm_in_kernel"):
        q, k = unit(q), unit(k)
    initial = arguments.get("initial_state")
    state = None if initial is None else initial.float()
    return Mixing(q, k, v, decay, q.shape[3] ** -0.5, write, state), torch.zeros(())


KERNELS: dict[str, Callable[[KernelArguments], tuple[Mixing, Tensor]]] = {
    "mamba2_chunk_scan": _from_mamba,
    "torch_chunk_gated_delta_rule": _from_delta_rule,
}


def kernel_of(module: nn.Module) -> str | None:
    """Return the name of the kernel that a module's `forward` calls, None if it calls none.

    >>> from transformers.models.bamba.modeling_bamba import BambaConfig, BambaMixer
    >>> config = BambaConfig(hidden_size=8, num_attention_heads=2, mamba_n_heads=2, num_hidden_layers=1)
    >>> kernel_of(BambaMixer(config, 0)), kernel_of(nn.Linear(1, 1))
    ('mamba2_chunk_scan', None)
    """
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return next((name for name in KERNELS if code is not None and name in code.co_names), None)


# Global, as the names in the library's modules are: callback and thread.
_listeners: list[tuple[Callable[[KernelArguments, Any], None], int]] = []


@contextmanager
def listen(model: PretrainedModel, on_call: OnCall, *, all_modalities: bool = False) -> Iterator[None]:
    """Call `on_call` for every mixer call of this model in this thread inside the block."""
    mixers = [
        (name, module, kernel)
        for name, module in model.named_modules()
        if (all_modalities or not OTHER_MODALITIES.search(name)) and (kernel := kernel_of(module)) is not None
    ]
    running: list[tuple[str, nn.Module, str, Tensor | None]] = []  # the mixer that is running

    def enter(name: str, kernel: str, module: nn.Module, args: object, options: KernelArguments) -> None:
        real = options.get("attention_mask")
        running.append((name, module, kernel, real if isinstance(real, Tensor) and real.ndim == 2 else None))

    def leave(module: nn.Module, args: object, output: object) -> None:
        running.pop()

    def on_kernel(arguments: KernelArguments, result: Any) -> None:
        if running:
            name, module, kernel, real = running[-1]
            try:
                call, skip_output = KERNELS[kernel](arguments)
                keep = None if real is None else real[:, -call.v.shape[2] :].bool()
                matches = reproduces(call, skip_output, result[0] if isinstance(result, tuple) else result, keep)
            except (LookupError, AttributeError, TypeError, ValueError, RuntimeError):  # unknown arguments
                matches = False
            if not matches:
                raise Untraceable(
                    "{model} does more with its state than what its kernel was given tells, so maps computed from that would "
                    "be wrong",
                    model=type(module).__name__,
                )
            on_call(name, replace(call, keep=keep))

    code = [(inspect.unwrap(type(module).forward), kernel) for _, module, kernel in mixers]
    files = {(id(names := forward.__globals__), kernel): names for forward, kernel in code}
    with ExitStack() as stack:
        for name, module, kernel in mixers:
            begin = partial(enter, name, kernel)
            stack.enter_context(module.register_forward_pre_hook(begin, with_kwargs=True))
            stack.enter_context(module.register_forward_hook(leave, always_call=True))
        stack.enter_context(subscribed(_listeners, (on_kernel, threading.get_ident())))
        for (_, kernel), names in files.items():
            stack.enter_context(replacing(names, kernel, _observed))
        yield


def _observed(kernel: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(kernel)
    def observed(*args: Any, **options: Any) -> Any:
        output = kernel(*args, **options)
        arguments = inspect.signature(kernel).bind(*args, **options).arguments
        for listener, thread in list(_listeners):
            if thread == threading.get_ident():
                listener(arguments, output)
        return output

    return observed


def reproduces(call: Mixing, skip_output: Tensor, output: Tensor, keep: Tensor | None) -> bool:
    """True if the call gives the kernel's output (B, N, H, P); padding may be anything."""
    ours = call.run("chunkwise", CHUNK)[0].transpose(1, 2) + skip_output
    counted = torch.ones(ours.shape[:2], dtype=torch.bool, device=ours.device) if keep is None else keep  # (B, N)
    return ours.shape == output.shape and close(ours.flatten(2), output.flatten(2), counted)
