"""Layers around attention: are the residuals and norms wired as they should be?

The wiring is read off the numbers: what a layer gives (or what goes into a norm) is written as a sum of its input,
its norms' outputs and its sublayers' outputs, and the coefficients of that sum tell how it is wired.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor, nn

from ...i18n import _
from ..case import Case
from ..subject.capture import as_tokens
from ..subject.errors import UserError

Array = np.ndarray


@dataclass
class Parts:
    """The tensors of one run that can stand in a sum, each (B, N, C)."""

    x: Array
    output: Array
    norms: list[tuple[str, Array, Array]] = field(default_factory=list)  # name, in, out
    sublayers: list[tuple[str, Array]] = field(default_factory=list)  # output of each product of the model's width
    attention: int = -1  # which of them is attention's
    taken: list[Array] = field(default_factory=list)  # what the first projections took


def has_residual(parts: Parts | None) -> bool:
    """Whether the input itself is a summand of the output, or of what the last norm takes."""
    if parts is None or parts.attention < 0:
        return False
    target = _behind_norm(parts)[0]
    found = _sum(target, {"x": parts.x, **dict(parts.sublayers), **{n: o for n, _, o in parts.norms}})
    return found is not None and (len(parts.norms) > 0 or abs(found.get("x", 0)) > 1e-6)


def examine(case: Case) -> None:
    """Name what is wired wrongly, where the wiring can be read at all."""
    parts = case.wiring
    if parts is None or parts.attention < 0 or len(parts.norms) == 0:
        return
    case.checked.append("wiring")
    _half_normed(case, parts)
    if len(parts.sublayers) <= parts.attention + 1:
        return  # attention with a norm of its own, no feed-forward: anything goes
    inputs = [*(norm[1] for norm in parts.norms), *parts.taken]
    if not any(array.shape == parts.x.shape and np.allclose(array, parts.x) for array in inputs):
        return  # a model: layers of its own stand before the block
    attention, forward = parts.sublayers[parts.attention][0], parts.sublayers[-1][0]
    target, last = _behind_norm(parts)
    outs = {name: out for name, _, out in parts.norms if name != last}
    summed = _sum(target, {"x": parts.x, **dict(parts.sublayers), **outs})
    if summed is None:
        return
    shown = _written(summed, attention, forward)
    if last:
        _post_norm(case, parts, summed, outs, attention, forward, shown)
    else:
        _pre_norm(case, parts, summed, outs, attention, forward, shown)


def _pre_norm(
    case: Case, parts: Parts, summed: dict[str, int], outs: dict[str, Array], attention: str, forward: str, shown: str
) -> None:
    normed = [n for n in outs if summed.get(n)]
    if not summed.get("x") and len(normed) == 1 and summed.get(forward) == 1:
        first = parts.norms[0][0]
        if summed.get(attention) == 1 or normed[0] != first:
            case.add("T5")
        return
    if summed.get("x") == 1 and normed:
        inside = {n: taken for n, taken, _ in parts.norms}
        own = {n for n in normed for _, made in parts.sublayers if np.allclose(inside[n], made)}
        before = any(np.allclose(taken, parts.x) for _, taken, _ in parts.norms)
        if (
            own == set(normed)
            and not before
            and not re.search(r"swin|v2|sandwich|res_?post", case.says.text, re.IGNORECASE)
        ):
            case.add("T6", "", found=shown, right="norm(x + attention), norm(x + feed-forward)")
        return
    right = {"x": 1, attention: 1, forward: 1}
    wrong = {k: summed.get(k, 0) for k in right} != right
    if wrong and summed.get(forward) == sum(map(abs, summed.values())) and len(parts.sublayers) > parts.attention + 2:
        return  # the last of many products alone: it may be a head behind the blocks
    if wrong and not normed:
        case.add("T6", "", found=shown, right="x + attention + feed-forward")


def _post_norm(
    case: Case, parts: Parts, summed: dict[str, int], outs: dict[str, Array], attention: str, forward: str, shown: str
) -> None:
    normed = [n for n in outs if summed.get(n)]
    if summed.get("x") == 1 and summed.get(attention) == 1 and summed.get(forward) == 1:
        return  # a pre-norm layer with a last norm behind it
    if summed.get(forward) == 1 and len(normed) == 1 and summed[normed[0]] == 1 and not summed.get("x"):
        before = next((taken for name, taken, _ in parts.norms if name == normed[0]), None)
        earlier = {"x": parts.x, **dict(parts.sublayers), **{n: o for n, _, o in parts.norms if n != normed[0]}}
        inner = _sum(before, earlier) if before is not None else None
        if inner is None:
            return
        others = [n for n in inner if n not in ("x", attention) and inner[n]]
        if inner.get(attention) and not inner.get("x") and not others:
            case.add("T6", "", found=f"norm({_written(inner, attention, forward)}) …", right="norm(x + attention)")
        return
    if not normed and (summed.get(forward) or summed.get("x")):
        case.add("T6", "", found=f"norm({shown})", right="norm(h + feed-forward), h = norm(x + attention)")


def _written(summed: dict[str, int], attention: str, forward: str) -> str:
    names = {attention: "attention", forward: "feed-forward"}
    terms = []
    for name, times in summed.items():
        if times:
            plain = names.get(
                name,
                name
                if name == "x"
                else f"{name.split('.')[-1] if 'norm' in name or name.startswith('ln') else name}(…)",
            )
            terms.append(plain if times == 1 else f"{times}·{plain}")
    return " + ".join(terms) or "0"


def _half_normed(case: Case, parts: Parts) -> None:
    """T8: in self-attention, all of q, k and v come from the same normed x."""

    def among(taken: Array, arrays: list[Array]) -> bool:
        return any(taken.shape == one.shape and np.allclose(taken, one) for one in arrays)

    of_x = [out for _name, taken, out in parts.norms if among(taken, [parts.x])]
    normed = [among(taken, of_x) for taken in parts.taken[:3]]
    if "k" in case.subject.inputs:
        keys = [case.inputs["k"], case.inputs.get("v", case.inputs["k"])]
        if any(normed) and not any(among(taken, keys) for _name, taken, _out in parts.norms):
            text = _("self-attention: the norm inside is for the query only, keys and values come as they are given")
            case.miss("normed", text)
    elif any(normed) and any(among(taken, [parts.x]) for taken in parts.taken[:3]):
        case.add("T8")


def _behind_norm(parts: Parts) -> tuple[Array, str]:
    """What is summed last: the output, or what the norm took that made it."""
    for name, taken, out in reversed(parts.norms):
        if out.shape == parts.output.shape and np.allclose(out, parts.output):
            return taken, name
    return parts.output, ""


def _sum(target: Array, terms: dict[str, Array]) -> dict[str, int] | None:
    """The whole numbers with which the terms add up to the target; None where they don't.

    >>> a, b = np.random.default_rng(0).normal(size=(2, 1, 3, 4))
    >>> _sum(a + 2 * b, {"a": a, "b": b})
    {'a': 1, 'b': 2}
    """
    terms = {n: t for n, t in terms.items() if t.shape == target.shape}
    if not terms or not np.isfinite(target).all():
        return None
    columns = np.stack([t.ravel() for t in terms.values()], 1)
    factors = np.linalg.lstsq(columns, target.ravel(), rcond=None)[0]
    whole = np.asarray(np.round(factors))
    if np.abs(factors - whole).max() > 1e-4 or np.abs(columns @ whole - target.ravel()).max() > 1e-5 * (
        np.abs(target).max() or 1
    ):
        return None
    return {name: int(f) for name, f in zip(terms, whole, strict=True)}


def parts_of(case: Case) -> Parts | None:
    """Run it once with every norm and product watched."""
    subject, owner = case.subject, case.subject.owner
    inputs = case.inputs
    x = inputs.get("x", inputs.get("q"))
    if not isinstance(owner, nn.Module) or subject.layout not in ("bnc", "nbc") or x is None or case.watched is None:
        return None
    norms: list[tuple[str, Array, Array]] = []
    try:
        with _norms(owner, norms):
            result = subject(inputs, watch=True)
    except UserError:
        return None
    if subject.layout == "nbc":
        norms = [(name, a.swapaxes(0, 1), b.swapaxes(0, 1)) for name, a, b in norms if a.ndim == b.ndim == 3]
    parts = Parts(x, result.output, norms)
    if result.output.shape != x.shape:
        return None
    place = case.watched.place
    for index, product in enumerate(result.seen.products):
        made, taken = (as_tokens(t, x.shape[0], x.shape[1]) for t in (product.given, product.taken))
        if made is not None and made.shape == x.shape and index >= place >= 0:
            if index == place:
                parts.attention = len(parts.sublayers)
            parts.sublayers.append((f"{index}", made))
        elif taken is not None and taken.shape == x.shape and index < place:
            parts.taken.append(taken)
    return parts


@contextlib.contextmanager
def _norms(owner: nn.Module, found: list[tuple[str, Array, Array]]) -> Iterator[None]:
    """Note what goes into and comes out of every layer whose class or name speaks of a norm."""
    handles = []

    def hook(name: str) -> Any:
        def note(_: Any, taken: Any, made: Any) -> None:
            if taken and isinstance(taken[0], Tensor) and isinstance(made, Tensor):
                label = name if all(n != name for n, _, _ in found) else f"{name}#{len(found)}"
                found.append((label, taken[0].detach().double().numpy().copy(), made.detach().double().numpy().copy()))

        return note

    for name, module in owner.named_modules():
        if re.search(r"norm", type(module).__name__.lower()) and not list(module.children()):
            handles.append(module.register_forward_hook(hook(name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
