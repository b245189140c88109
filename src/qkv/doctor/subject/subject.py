"""Something that can be run on canonical inputs: roles of its arguments known, layout and precision too.

Canonical inputs are NumPy, float64: q (B, N, C), k and v (B, M, C).
"""

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..source.coverage import settle
from .capture import Capture, NumpyCapture
from .errors import CALL, Budget, Spent, UserError
from .guess import Sizes, current_draw
from .leavings import Leavings
from .values import arrays, cast, describe, settings, signature, to_numpy

# Bound before any file of a user's has run.
# torch.manual_seed also writes down the stack for every kind of card that is absent, which takes longer than a call.
_seed, _tensor = torch.default_generator.manual_seed, torch.tensor

MOST_CALLS = 64  # that are kept to try a patch with

# What a sandbox does after every call of the user's code: put back what it replaced.
between_calls: list[Callable[[], None]] = []


@dataclass
class Result:
    """One call: the output as (B, N, features), and everything that came back."""

    output: np.ndarray
    raw: Any
    seen: Any = None
    weights: np.ndarray | None = None
    graph: Any = None


@dataclass
class Subject:
    """A callable with the roles of its arguments known."""

    name: str
    function: Callable[..., Any]
    owner: Any  # the module or object, or None for a function
    sizes: Sizes
    roles: dict[str, str]  # parameter → role
    layout: str  # "bnc", "nbc", "nc", "bhnd", "ids"; images "bchw", "bhwc"; one query per text "bc", a number per token "bn"
    framework: str  # "torch" or "numpy"
    width: int  # of one input vector
    built: str = ""
    chosen: dict[str, Any] = field(default_factory=dict)  # meaning → value that the constructor was given
    fixed: dict[str, Any] = field(default_factory=dict)  # parameter → constant
    dtype: str = "float64"
    declared: dict[str, int] = field(default_factory=dict)  # sizes found on the object: heads, kv_heads, head
    needed: tuple[str, ...] = ()  # kinds of arguments that have a default but can't be left out
    gain: float = 1.5  # of random inputs
    failures: list[BaseException] = field(default_factory=list)  # of a batch, where single texts run
    grouped: BaseException | None = None  # with fewer key heads, where as many run
    make: Callable[..., Any] | None = None  # builds it anew, from another `seed` if given
    numbers: tuple[int, ...] = ()  # sizes among the file's globals
    widths: dict[str, int] = field(default_factory=dict)  # where q, k, v, memory have widths of their own
    budget: Budget | None = None  # while nobody counts, none
    tails: dict[str, tuple[int, ...]] = field(default_factory=dict)  # role → the axes that one token has: (3, 16, 16)
    grid: int = 0  # axes that the tokens lie on: 2 in an image, 3 in a film
    patch: int = 0  # pixels of each side of a token, where an image is cut into tokens inside
    left: Leavings | None = None  # as it was before any call, where a call goes on from what the one before left behind
    carrying: bool = False  # then each call goes on; else each begins anew
    inner: bool = False  # what gives one vector per text is looked at where its tokens last stood side by side

    @property
    def inputs(self) -> list[str]:
        """The roles that take vectors: ["x"], ["q", "k", "v"], ["x", "memory"]…"""
        return [r for r in self.roles.values() if r in ("x", "q", "k", "v", "memory")]

    @property
    def masks(self) -> list[str]:
        """The parameters that take masks."""
        return [p for p, r in self.roles.items() if r in ("mask", "lengths")]

    def watched_weights(self) -> bool:
        """Whether it has matrices of its own, which fix the width."""
        if isinstance(self.owner, nn.Module):
            return any(p.dim() >= 2 for p in self.owner.parameters())
        return self.owner is not None and any(
            getattr(v, "ndim", 0) >= 2 or isinstance(v, nn.Module) for v in vars(self.owner).values()
        )

    @functools.cached_property
    def _weights_count(self) -> int:
        return sum(p.numel() for p in self.owner.parameters()) if isinstance(self.owner, nn.Module) else 0

    @property
    def crosses(self) -> bool:
        """Whether keys come by an argument of their own."""
        return "k" in self.inputs or "memory" in self.inputs

    def draw(self, seed: int = 0, *, n: int = 0, m: int = 0, batch: int = 0) -> dict[str, np.ndarray]:
        """Random inputs of every role; without m, keys are as many as queries, and one text is all its inputs' text."""
        random = np.random.default_rng((current_draw().seed, seed) if current_draw().seed else seed)
        batch = batch or self.sizes.batch
        n = n or self.sizes.queries
        if self.layout == "ids":
            known = (
                [m.num_embeddings for m in self.owner.modules() if isinstance(m, nn.Embedding)]
                if isinstance(self.owner, nn.Module)
                else []
            )
            top = min([self.sizes.vocabulary, *(k for k in known if k > 4)])
            lengths = {r: n if r in ("x", "q") else m or n for r in self.inputs}
            return {
                r: self.gain * random.standard_normal((batch, length, self.widths[r]))
                if r in self.widths
                else random.integers(2, top, (batch, length))
                for r, length in lengths.items()
            }
        heads = (self.sizes.heads,) if self.layout in ("bhnd", "bnhd") else ()

        def one(length: int, width: int) -> np.ndarray:
            return self.gain * random.standard_normal((batch, *heads, length, width))

        drawn = {r: one(n if r in ("x", "q") else m or n, self.widths.get(r, self.width)) for r in self.inputs}
        if heads and "kv_heads" in self.widths:
            drawn |= {r: a[:, : self.widths["kv_heads"]] for r, a in drawn.items() if r in ("k", "v")}
        return drawn

    def __call__(
        self,
        inputs: dict[str, np.ndarray],
        given: dict[str, Any] | None = None,
        *,
        watch: bool = False,
        quiet: bool = True,
        grad: bool = False,
        seed: int | None = 0,
    ) -> Result:
        """Run it on canonical inputs; `given` sets other parameters by name (masks already encoded)."""
        if self.layout == "nc":
            return self._one_by_one(inputs, given, watch=watch, quiet=quiet, grad=grad, seed=seed)
        given = {**self._fitted(inputs), **(given or {})}
        if self.layout == "bc":
            return self._query_by_query(inputs, given, watch=watch, quiet=quiet, grad=grad, seed=seed)
        arguments = {p: self.encode(inputs[r], r) for p, r in self.roles.items() if r in inputs}
        return self.run(
            arguments,
            given,
            inputs.get("x", inputs.get("q", next(iter(inputs.values())))).shape,
            watch,
            quiet,
            grad,
            seed,
        )

    def _one_by_one(self, inputs: dict[str, np.ndarray], given: dict[str, Any] | None, **how: Any) -> Result:
        results = []
        size = len(next(iter(inputs.values())))
        for item in range(size):
            arguments = {p: self.encode(inputs[r][item], r) for p, r in self.roles.items() if r in inputs}
            fitted = self._fitted({r: a[item : item + 1] for r, a in inputs.items()})
            one = fitted | {p: g[item] if isinstance(g, PerItem) else g for p, g in (given or {}).items()}
            asking = inputs.get("x", inputs.get("q", inputs[self.inputs[0]]))
            results.append(self.run(arguments, one, asking[item].shape, **how))
        each = [r.weights for r in results if r.weights is not None]
        weights = np.stack(each) if len(each) == size else None
        return Result(np.stack([r.output for r in results]), [r.raw for r in results], results[0].seen, weights)

    def _query_by_query(self, inputs: dict[str, np.ndarray], given: dict[str, Any], **how: Any) -> Result:
        """Code that takes one query of each text, (B, C), is asked once per query."""
        asks = "x" if "x" in inputs else "q"
        results = []
        for place in range(inputs[asks].shape[1]):
            arguments = {
                p: self.encode(inputs[r][:, place] if r == asks else inputs[r], r)
                for p, r in self.roles.items()
                if r in inputs
            }
            results.append(self.run(arguments, given, inputs[asks][:, place : place + 1].shape, **how))
        each = [r.weights for r in results if r.weights is not None]
        weights = np.concatenate(each, 1) if len(each) == len(results) else None
        output = np.concatenate([r.output for r in results], 1)
        whole = torch.cat([r.graph for r in results], 1) if isinstance(results[0].graph, Tensor) else None
        return Result(output, [r.raw for r in results], results[0].seen, weights, whole)

    def _fitted(self, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
        """The constants that depend on how many texts and tokens there are, for these."""
        asking = inputs.get("x", inputs.get("q", next(iter(inputs.values()))))
        other = inputs.get("memory", inputs.get("k", asking))
        axis = 1 if self.layout == "ids" else -2
        b, n, m = len(asking), asking.shape[axis], other.shape[axis if other.ndim == asking.ndim else 1]
        return {p: self.typed(v.make(b, n, m)) for p, v in self.fixed.items() if isinstance(v, Fitted)}

    def typed(self, value: Any) -> Any:
        """Arrays, in dicts and lists too, of this framework and precision."""
        if isinstance(value, dict):
            return {key: self.typed(one) for key, one in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self.typed(one) for one in value)
        if isinstance(value, nn.Module):
            cast(value.eval(), getattr(torch, self.dtype))
        if isinstance(value, np.ndarray) and self.framework == "torch":
            value = torch.from_numpy(np.ascontiguousarray(value))
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.to(getattr(torch, self.dtype))
        return value.astype(self.dtype) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value

    def encode(self, array: np.ndarray, role: str = "") -> Any:
        """A canonical array in this code's own layout, framework and precision."""
        if self.layout == "nbc":
            array = array.swapaxes(0, 1)
        elif self.layout == "bn":
            array = array[..., 0]
        elif self.grid:
            array = array.reshape(len(array), *_grid(array.shape[1], self.grid), array.shape[-1])
            if self.patch:
                b, high, wide, features = array.shape
                array = array.reshape(b, high, wide, -1, self.patch, self.patch).transpose(0, 3, 1, 4, 2, 5)
                array = array.reshape(b, features // self.patch**2, high * self.patch, wide * self.patch)
            elif self.layout == "bchw":
                array = np.moveaxis(array, -1, 1)
        elif role in self.tails:
            array = array.reshape(*array.shape[:-1], *self.tails[role])
        elif self.layout == "bnhd":
            array = array.swapaxes(1, 2)
        if self.framework == "numpy":
            return array.astype(self.dtype) if array.dtype.kind == "f" else array.copy()
        return _tensor(
            np.ascontiguousarray(array), dtype=getattr(torch, self.dtype) if array.dtype.kind == "f" else torch.long
        )

    def run(
        self, arguments: dict[str, Any], given: Any, shape: Any, watch: bool, quiet: bool, grad: bool, seed: int | None
    ) -> Result:
        """One call with arguments as they are."""
        if self.budget is not None:  # each weight meets each token once, and a gradient costs twice as much again
            tokens = int(np.prod(shape if self.layout == "ids" else shape[:-1]))  # ids have no axis of features
            self.budget.pay(CALL + 2 * self._weights_count * tokens * (3 if grad else 1))
        if self.left is not None and not self.carrying:
            self.left.restore(self.owner)
        if grad:  # not leaves: in a model they are outputs of other layers, which may be edited in place
            with torch.enable_grad():
                arguments = {
                    p: a.requires_grad_(True).clone() if isinstance(a, Tensor) and a.is_floating_point() else a
                    for p, a in arguments.items()
                }
        plain = {p: v for p, v in self.fixed.items() if not isinstance(v, Fitted)}
        filled = {**arguments, **plain, **(given or {})}
        positional, named = self.bind(filled)
        tensors = [a for a in arguments.values() if isinstance(a, Tensor)]
        if seed is not None:
            _seed(seed)
            np.random.seed(seed)
        seen: Any = (
            Capture(quiet=quiet, roots=tensors)
            if self.framework == "torch" and (watch or quiet or self.inner)
            else None
        )
        mode: Any = seen or contextlib.nullcontext()
        if self.framework == "numpy" and watch:
            seen = NumpyCapture()
            vectors = {p for p, r in self.roles.items() if r in ("x", "q", "k", "v", "memory")}
            positional, named = self.bind(
                {p: seen.watched(a) if p in vectors and isinstance(a, np.ndarray) else a for p, a in filled.items()}
            )
        settle(True)  # what built it
        with settings(self.dtype), torch.set_grad_enabled(grad), mode:
            try:
                raw = self.function(*positional, **named)
            except (KeyboardInterrupt, MemoryError, Spent):
                raise
            except BaseException as error:  # sys.exit too
                settle(False)
                raise UserError(error) from None
            finally:
                for mend in between_calls:
                    mend()
        if self.budget is not None and not grad and len(self.budget.calls) < MOST_CALLS:
            kind = [(p, getattr(v, "shape", v if isinstance(v, bool) else v is None)) for p, v in filled.items()]
            self.budget.calls.setdefault((self.name, self.built, *sorted(kind)), (self, filled))
        output = self._output(raw, shape)
        if output is None and self.inner and self.framework == "torch" and seen is not None:
            output = self._beside(seen, shape, arguments)
        if output is None:
            raise UserError(TypeError(f"gave {describe(raw)}: no output of shape {self._wanted(shape)}"))
        found = to_numpy(output)
        if self.layout == "nbc":
            found = found.swapaxes(0, 1)
        elif self.layout == "bnhd" and found.ndim == 4:
            found = found.swapaxes(1, 2)
        return Result(found, raw, seen if watch else None, self._weights(raw, output, shape), output)

    def bind(self, filled: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional as far as the signature allows: a parameter may be positional-only or be called *args."""
        parameters = list(signature(self.function).parameters.values())
        positional: list[Any] = []
        named: dict[str, Any] = {}
        gap = False
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if parameter.name not in filled:
                gap = True
            elif gap or parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = filled[parameter.name]
            else:
                positional.append(filled[parameter.name])
        for name, given in filled.items():
            if name not in {p.name for p in parameters}:
                positional.append(given)
        return positional, named

    def _wanted(self, shape: Any) -> str:
        return f"({', '.join(map(str, shape[:-1] if self.layout != 'ids' else shape))}, …)"

    def _output(self, raw: Any, shape: tuple[int, ...]) -> Any:
        """The first array whose leading axes are the input's."""
        lead = tuple(shape[:-1]) if self.layout != "ids" else tuple(shape)
        if self.layout == "nbc":
            lead = (lead[1], lead[0])
        elif self.layout == "bnhd":
            lead = (lead[0], lead[2], lead[1])
        elif self.layout == "bc":
            return next(
                (
                    a.unsqueeze(1) if isinstance(a, Tensor) else a[:, None]
                    for a in arrays(raw)
                    if a.ndim == 2 and a.shape[0] == lead[0]
                ),
                None,
            )
        elif self.grid:
            return self._from_grid(raw, lead)
        beside = (lead[0], lead[2], lead[1]) if self.layout == "bhnd" else lead  # heads ready to be merged
        for array in arrays(raw):
            if array.ndim == len(lead) + 1 and tuple(array.shape[:-1]) in (lead, beside):
                return array if tuple(array.shape[:-1]) == lead else array.swapaxes(1, 2)
        if self.layout in ("bhnd", "bnhd"):  # heads merged again
            b, _, n, _ = shape
            for array in arrays(raw):
                if tuple(array.shape[:2]) == (b, n) and array.ndim == 3:
                    return array
        return None

    def _from_grid(self, raw: Any, lead: tuple[int, ...]) -> Any:
        """An image's tokens in a row again; what is in a row already is taken so."""
        sides = _grid(lead[1], self.grid)
        for array in arrays(raw):
            shape = tuple(array.shape)
            if len(shape) == self.grid + 2 and shape[0] == lead[0]:
                if self.layout == "bchw" and shape[2:] == sides:
                    return array.reshape(*shape[:2], -1).swapaxes(1, 2)
                if shape[1:-1] == sides:
                    return array.reshape(lead[0], lead[1], -1)
            if len(shape) == 3 and shape[:2] == lead:
                return array
            if len(shape) == 3 and self.patch and shape[:2] == (lead[0], lead[1] + 1):
                return array[:, 1:]  # without the token of the class
        return None

    def _beside(self, seen: Any, shape: tuple[int, ...], arguments: dict[str, Any]) -> Any:
        """The last features of all tokens, (B, N, C), before they were pooled into one vector."""
        lead = tuple(shape[:-1]) if self.layout != "ids" else tuple(shape)
        lead = lead[::-1] if self.layout == "nbc" else lead
        given = {id(one) for one in arguments.values()}
        for tensor in reversed(seen.made):
            if tensor.dim() == 3 and tensor.is_floating_point() and id(tensor) not in given:
                if tuple(tensor.shape[:2]) == lead[:2]:
                    return tensor
                if self.patch and tuple(tensor.shape[:2]) == (lead[0], lead[1] + 1):
                    return tensor[:, 1:]
        return None

    def _weights(self, raw: Any, output: Any, shape: Any) -> np.ndarray | None:
        n = shape[-2] if self.layout != "ids" else shape[-1]
        for array in arrays(raw):
            if array is not output and array.ndim >= 2 and array.shape[-2] == n and array.shape != output.shape:
                return to_numpy(array)
        return None


@dataclass(frozen=True)
class Fitted:
    """A constant argument that depends on how many texts, queries and keys there are."""

    make: Callable[[int, int, int], Any]


def _grid(n: int, axes: int) -> tuple[int, ...]:
    """So many tokens on so many axes, as square as they go.

    >>> _grid(6, 2), _grid(7, 2), _grid(12, 3)
    ((2, 3), (1, 7), (2, 2, 3))
    """
    if axes == 1:
        return (n,)
    side = max(s for s in range(1, int(n ** (1 / axes) + 1e-9) + 1) if n % s == 0)
    return (side, *_grid(n // side, axes - 1))


class PerItem(list):
    """A value for each item of a batch, for code that takes one text at a time."""
