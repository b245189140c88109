"""Error bounds of a trace's numbers, from the precision in which its q, k and v were saved.

A trace saved in float16 computes with rounded q and k, so later digits of its weights aren't exact.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from ..attention.dispatch import Call
from ..mixers import mixer_maps as mixing
from ..mixers.calls import Mixing
from ..tracing.views.attention_maps import head_of
from ..tracing.views.traces import Trace

ERRORS = dict(weight=1e-6, dot=0.0, value=0.0)  # of float32 traces; q, k and v are exact
ROWS = 16  # rows of each head on which an error is measured
MARGIN = 1.5  # the worst ratio of true to measured error over 150 random traces
HALF = 2.0**-11  # the largest rounding error of float16, as a share of the number


def measure_errors(trace: Trace, call: Call | Mixing) -> dict[str, float]:
    """Return error bounds of a call's weights (a mixer's: relative to each head's largest), q·k and v."""
    if trace.more.get("precision") != "float16":
        return ERRORS
    weight, dot = difference(call, _perturbed_call(call, torch.Generator().manual_seed(0)))
    return dict(
        weight=max(MARGIN * weight, ERRORS["weight"]),
        dot=MARGIN * dot,
        value=float(call.v.abs().amax()) * HALF if call.v.numel() else 0.0,
    )


def difference(call: Call | Mixing, other: Call | Mixing) -> tuple[float, float]:
    """Return the largest differences of weights (see `measure_errors`) and q·k, on ROWS rows of each head."""
    n = call.q.shape[2]
    rows = sorted({round(i * (n - 1) / (ROWS - 1)) for i in range(ROWS)}) if n > 1 else [0]
    # The sums of rows differ, too.
    calls = [each if isinstance(each, Mixing) else replace(each, lse=None) for each in (call, other)]
    weight = dot = 0.0
    for item in range(call.q.shape[0]):
        for head in range(call.n_head):
            heads = [
                mixing.head_of(each, item, head) if isinstance(each, Mixing) else head_of(each, item, head)
                for each in calls
            ]
            weights = [each.weights(rows) for each in heads]
            top = float(weights[0].abs().max()) if isinstance(call, Mixing) else 1.0
            off = float((weights[0] - weights[1]).abs().max()) / (top or 1.0)
            weight = max(weight, off if math.isfinite(off) else 1.0)
            dots = [each.call.q[0, 0, rows] @ each.call.k[0, 0].T for each in heads]
            dot = max(dot, float((dots[0] - dots[1]).abs().max()))
    return weight, dot


def _perturbed_call(call: Call | Mixing, noise: torch.Generator) -> Call | Mixing:
    """Return the call with q, k and a mixer's writes changed by as much as float16 rounding can."""
    q, k = _perturbed(call.q, noise), _perturbed(call.k, noise)
    if isinstance(call, Mixing) and call.write is not None:
        return replace(call, q=q, k=k, write=_perturbed(call.write, noise))
    return replace(call, q=q, k=k)


def _perturbed(tensor: Tensor, noise: torch.Generator) -> Tensor:
    """Move every number up or down by half a float16 unit, at random."""
    _, exponent = torch.frexp(tensor)
    sign = torch.randint(0, 2, tensor.shape, generator=noise) * 2 - 1
    return tensor + sign * torch.exp2(exponent.float()) * (HALF / 2)
