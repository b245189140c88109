"""Subjects that are built and called as their own file builds and calls them.

What each argument is, is read off the values that the file handed over: vectors, ids, masks, lengths, tables, weights.
The sizes that the constructor fixed stay; how many texts and tokens there are is ours, all different, where that runs.
"""

import copy
import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .adapt import eval_flags
from .building import Built, construct, declared
from .errors import Spent, UserError
from .guess import Sizes, meaning, role
from .subject import Fitted, Subject
from .usage import Example
from .values import cast, parameters_of

_tensor = torch.tensor
FREE = (5, 7, 9, 3, 11, 13, 2, 15, 17)  # numbers of texts and tokens, of which those are taken that no size equals
ARRAYS = (Tensor, np.ndarray)


def builds(target: Any, example: Example, space: dict[str, Any]) -> Iterator[Built]:
    """As the file builds it; with a strong dropout first, so that one that never sleeps shows."""
    if example.built is None:
        yield Built(target, "", {}, Sizes())
        return
    drops = {p.name: 0.5 for p in parameters_of(target) if meaning(p.name) == "dropout"}
    for dropping in [drops, {}] if drops else [{}]:
        arguments = {**example.built, **dropping}
        text = f"{target.__name__}({', '.join(f'{k}={_shown(v)}' for k, v in arguments.items())})"
        make = partial(_made, target, arguments)
        try:
            object_ = make()
        except (KeyboardInterrupt, Spent):
            raise
        except BaseException:
            continue
        chosen: dict[str, Any] = {}
        for name, given in arguments.items():
            if meaning(name):
                chosen.setdefault(meaning(name), given)
        yield Built(object_, text, chosen, Sizes(), make)


def _made(target: Any, arguments: dict[str, Any], seed: int = 0) -> Any:
    return construct(target, copy.deepcopy(arguments), seed=seed)


def _shown(given: Any) -> str:
    shown = repr(given)
    return shown if len(shown) <= 60 and "\n" not in shown else f"{type(given).__name__}(…)"


def subjects(built: Built, example: Example, name: str, space: dict[str, Any]) -> Iterator[Subject]:
    """Every way to run it on our inputs that fits how the file calls it."""
    owner = None if inspect.isroutine(built.object) else built.object
    function = built.object if example.method in ("", "forward") else getattr(built.object, example.method)
    if owner is not None and not isinstance(owner, nn.Module):
        function = getattr(built.object, example.method)
    parameters = parameters_of(function)
    numbers = tuple(v for v in space.values() if type(v) is int and 1 < v < 100000)[:12]
    found = {**declared(owner), **({"heads": built.chosen["heads"]} if "heads" in built.chosen else {})}
    later: list[Subject] = []
    swapped: list[_Telling] = []  # the other of the two texts asks
    tellings = list(_tellings(example.given, owner))
    for inner, told in itertools.product((False, True), tellings):
        framework = "numpy" if isinstance(told.x, np.ndarray) else "torch"
        roles = {p.name: told.roles.get(p.name, "") for p in parameters}
        for sizes, constants, dtype in itertools.product(
            _sizes(told, owner, built.chosen, found), _constants(told, parameters), ("float64", "float32")
        ):
            subject = Subject(
                name, function, owner, sizes, roles, told.layout, framework, told.width, built.text, built.chosen,
                constants, dtype, found, make=built.make, numbers=numbers, widths=told.widths, tails=told.tails,
                grid=told.grid, patch=told.patch, inner=inner,
            )  # fmt: skip
            if isinstance(owner, nn.Module):
                cast(owner.eval(), getattr(torch, dtype))
            if any(told is one for one in swapped) or _answers_the_other(subject):
                swapped.append(told)
                later.append(subject)
            else:
                yield subject
    for subject in later:
        if isinstance(owner, nn.Module):
            cast(owner.eval(), getattr(torch, subject.dtype))
        yield subject


def _answers_the_other(subject: Subject) -> bool:
    """Whether the output has as many tokens as the memory: then the other of the two texts asks."""
    if "memory" not in subject.inputs:
        return False
    try:
        subject(subject.draw(n=subject.sizes.queries, m=subject.sizes.keys))
    except UserError as error:
        return isinstance(error.error, TypeError) and "no output of shape" in str(error)
    except (ValueError, TypeError, RuntimeError, IndexError):
        return False
    return False


@dataclass(frozen=True)
class _Telling:
    """What the arguments of one call are, and how many texts, queries and keys it had."""

    roles: dict[str, str]
    layout: str
    given: dict[str, Any]
    x: Any
    batch: int
    queries: int
    keys: int
    widths: dict[str, int]
    tails: dict[str, tuple[int, ...]]
    grid: int = 0  # how many axes the tokens lie on: 2 in an image, 3 in a film

    patch: int = 0  # pixels a side of each token

    @property
    def width(self) -> int:
        """Of the vectors that ask; 0 of ids."""
        return self.widths.get("x", self.widths.get("q", 0))


def _tellings(given: dict[str, Any], owner: Any) -> Iterator[_Telling]:
    """The ways to understand a call, likeliest first: names say which of two texts asks, else the first."""
    kinds = {name: _kind(name, one) for name, one in given.items()}
    vectors = [name for name, kind in kinds.items() if kind == "vector"]
    whole = [n for n in vectors if given[n].ndim >= 2 and not role(n).startswith(("mask", "weight"))]
    ids = [n for n, kind in kinds.items() if kind == "ids" and given[n].ndim == 2 and role(n) != "mask"]
    if not whole and not ids:  # an input of ones
        whole = [n for n, kind in kinds.items() if kind == "mask" and given[n].ndim >= 2 and role(n) != "mask"]
        whole = [n for n in whole if given[n].dtype in (torch.float32, torch.float64, np.dtype("float64"))]
    if not (asked := whole or ids[:2]):
        return
    whole = [n for n in whole if n == asked[0] or not _table(given[n], given[asked[0]])]
    asked = whole[:3] or asked
    for names in _assigned(asked, given):
        roles = {n: _plain(n, kinds[n]) for n in given if n not in names.values()} | {p: r for r, p in names.items()}
        yield from _layouts(roles, names, given, owner, bool(whole))


def _table(given: Any, x: Any) -> bool:
    """Whether it holds something for each two tokens of x, or has more axes than x: no text beside it."""
    n = x.shape[-2]
    return given.ndim > max(x.ndim, 3) or (tuple(given.shape[-2:]) == (n, n) and x.shape[-1] != n)


def _plain(name: str, kind: str) -> str:
    if kind in ("mask", "lengths"):
        return kind
    said = role(name)
    return said if said in ("positions", "start", "frequencies", "cache", "flag", "scale", "segment") else ""


def _kind(name: str, given: Any) -> str:
    """What a value is: vector, mask, ids, lengths, or a constant."""
    if not isinstance(given, ARRAYS) or given.ndim == 0:
        return "constant"
    array = given.detach().numpy() if isinstance(given, Tensor) else given
    counts = (array >= 0) & (array <= 3) & (array == np.round(array))  # edges of a graph, loops counted twice
    binary = array.dtype == bool or bool((counts if array.dtype.kind == "f" else array < 2).all() and array.min() >= 0)
    binary = binary or bool(((array == 0) | (array < -100)).all() if array.dtype.kind == "f" else False)
    if array.dtype.kind in "iu":
        if array.ndim == 1 and role(name) not in ("positions", "start"):
            return "lengths"
        return "mask" if binary and array.ndim >= 2 and array.size > 4 else "ids"
    return "mask" if binary and (array.dtype == bool or array.ndim >= 2) else "vector"


def _assigned(asked: list[str], given: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Role → parameter, in the order of likelihood."""
    said = {name: role(name) for name in asked}
    if len(asked) == 1:
        yield {"x": asked[0]}
        return
    last = [given[name].shape[-1] for name in asked]
    if len(asked) >= 3:
        three = {"q": asked[0], "k": asked[1], "v": asked[2]}
        if {said[n] for n in asked[:3]} == {"q", "k", "v"}:
            three = {said[n]: n for n in asked[:3]}
        if given[three["k"]].shape[:-1] == given[three["v"]].shape[:-1]:
            yield three
        asked = asked[:2]
    one, two = asked
    if {said[one], said[two]} == {"q", "k"} and last[0] == last[1]:
        yield {"q": one, "k": two} if said[one] == "q" else {"q": two, "k": one}
    first = {"x": one, "memory": two}
    swapped = {"x": two, "memory": one}
    prefers = (said[one] == "memory" and said[two] != "memory") or said[two] == "q"
    yield from (swapped, first) if prefers else (first, swapped)
    yield {"x": one}


def _layouts(
    roles: dict[str, str], names: dict[str, str], given: dict[str, Any], owner: Any, floats: bool
) -> Iterator[_Telling]:
    asks = names.get("x", names.get("q", ""))
    x = given[asks]
    other = next((given[p] for r, p in names.items() if r in ("k", "memory")), None)

    def told(layout: str, batch: int, n: int, m: int, grid: int = 0, channels: int = -1) -> _Telling:
        widths, tails = {}, {}
        for r, p in names.items():
            shape = tuple(given[p].shape)
            if layout == "bnc" and len(shape) > 3:
                tails[r] = shape[2:]
                widths[r] = int(np.prod(shape[2:]))
            else:
                widths[r] = 1 if layout == "bn" else shape[channels]
        return _Telling(roles, layout, given, x, batch, n, m, {} if layout == "ids" else widths, tails, grid)

    shape = tuple(x.shape)
    keys = other.shape if other is not None else shape
    if not floats:
        yield told("ids", shape[0], shape[1], keys[1])
    elif x.ndim == 3:
        squares = {
            one.shape[-1] for p, one in given.items() if roles[p] == "mask" and one.shape[-2:] == (one.shape[-1],) * 2
        }
        if shape[0] in squares and shape[1] not in squares:  # a mask of tokens by tokens: the first axis is theirs
            yield told("nbc", shape[1], shape[0], keys[0])
        yield told("bnc", shape[0], shape[1], keys[1] if len(keys) > 1 else shape[1])
    elif x.ndim == 2:
        if other is not None and other.ndim == 3:
            yield told("bc", shape[0], 1, keys[1])
        elif other is None or other.ndim == 2:
            yield told("nc", 1, shape[0], keys[0])
            if other is None:
                yield told("bn", shape[0], shape[1], shape[1])
    elif x.ndim == 4:
        weights = isinstance(owner, nn.Module) and any(True for _ in owner.parameters())
        if not weights:
            yield told("bhnd", shape[0], shape[2], keys[2])
        else:
            if patch := _patch(owner, shape):
                n = shape[2] * shape[3] // patch**2
                cut = told("bchw", shape[0], n, n, 2, 1)
                yield replace(cut, patch=patch, widths={r: w * patch**2 for r, w in cut.widths.items()})
            yield told("bchw", shape[0], shape[2] * shape[3], keys[2] * keys[3], 2, 1)
            yield told("bhwc", shape[0], shape[1] * shape[2], keys[1] * keys[2], 2)
    elif x.ndim == 5:
        yield told("bchw", shape[0], int(np.prod(shape[2:])), int(np.prod(keys[2:])), 3, 1)
        yield told("bnc", shape[0], shape[1], keys[1])


def _patch(owner: nn.Module, shape: tuple[int, ...]) -> int:
    """Of how many pixels a side each token is, where a convolution cuts images of that shape into tokens; else 0."""
    for layer in owner.modules():
        if isinstance(layer, nn.Conv2d) and layer.in_channels == shape[1] and layer.stride[0] > 1:
            if layer.stride == layer.kernel_size and layer.stride[0] == layer.stride[1]:
                return layer.stride[0]
    return 0


def _sizes(told: _Telling, owner: Any, chosen: dict[str, Any], found: dict[str, int]) -> Iterator[Sizes]:
    """Ours first; then the file's number of texts, its lengths, both."""
    taken = {size for w in told.widths.values() for size in (w,)}
    if isinstance(owner, nn.Module):
        taken |= {s for p in owner.parameters() if not isinstance(p, nn.UninitializedParameter) for s in p.shape}
    taken |= {v for v in [*chosen.values(), *found.values()] if type(v) is int}
    heads = found.get("heads") or next((v for k, v in chosen.items() if k == "heads" and type(v) is int), None)
    width = told.width or chosen.get("width") or 0
    width = width if type(width) is int and width > 0 else Sizes().width
    plain = Sizes()
    heads = heads or plain.heads
    head = width // heads if width % heads == 0 and width >= heads else max(width, 1)
    if told.layout == "bhnd":
        heads, head = told.x.shape[1], told.x.shape[3]
        taken.add(heads)
    free = [n for n in FREE if n not in taken]
    tops = (
        [m.num_embeddings for m in owner.modules() if isinstance(m, nn.Embedding)]
        if isinstance(owner, nn.Module)
        else []
    )
    vocabulary = min([plain.vocabulary, *(t for t in tops if t > 4)])
    queries, keys = sorted(free[1:3])  # a triangle over fewer keys than queries leaves rows without any
    base = replace(
        plain, batch=free[0], queries=queries, keys=keys, heads=heads, head=head, vocabulary=vocabulary,
        context=max(16, told.queries),
    )  # fmt: skip
    if told.layout == "bc":
        base = replace(base, queries=1)
    if told.grid:
        base = replace(base, queries=6 if 6 not in taken else 10, keys=12)
    seen: set[Sizes] = set()
    few = told.batch if told.batch > 1 else 2
    for batch, (n, m) in itertools.product(
        (base.batch, few, told.batch), ((base.queries, base.keys), (told.queries, told.keys))
    ):
        one = replace(base, batch=batch, queries=n, keys=m)
        if one not in seen and (batch not in (n, m) or batch == told.batch):
            seen.add(one)
            yield one


def _constants(told: _Telling, parameters: list[inspect.Parameter]) -> Iterator[dict[str, Any]]:
    """What is no vector, as the file gave it or fitted to our sizes; a mask that may be left out is left out."""
    optional = {p.name for p in parameters if p.default is not p.empty}
    fixed: dict[str, Any] = {}
    masks: dict[str, list[Fitted]] = {}
    vectors = {p for p, r in told.roles.items() if r in ("x", "q", "k", "v", "memory")}
    fixed |= eval_flags(parameters)
    for name, given in told.given.items():
        if name in vectors or (name in optional and told.roles[name] in ("mask", "lengths")):
            continue
        if name in optional and given is None:
            continue
        if told.roles[name] == "mask" and isinstance(given, ARRAYS):
            masks[name] = _masks(name, given, told)
        elif told.roles[name] == "lengths":
            longest = "m" if "memory" in told.roles.values() or "k" in told.roles.values() else "n"
            fixed[name] = Fitted(partial(_whole, longest))
        elif isinstance(given, ARRAYS) and told.roles[name] != "frequencies":
            fixed[name] = _fitted(given, told)
        elif isinstance(given, (int, float, str, bool)) or given is None:
            fixed[name] = given
        else:
            fixed[name] = Fitted(partial(_again, given))
    for row in zip(*masks.values(), strict=False) if masks else [()]:
        yield {**fixed, **dict(zip(masks, row, strict=True))}


def _whole(axis: str, b: int, n: int, m: int) -> np.ndarray:
    return np.full(b, _size(axis, b, n, m))


def _again(given: Any, b: int, n: int, m: int) -> Any:
    return copy.deepcopy(given)


def _masks(name: str, given: Any, told: _Telling) -> list[Fitted]:
    array = given.detach().numpy() if isinstance(given, Tensor) else given
    axes = _axes(name, array.shape, told)
    additive = array.dtype.kind == "f" and bool((array < -100).any())

    def filled(value: float, b: int, n: int, m: int) -> np.ndarray:
        return np.full([_size(axis, b, n, m) for axis in axes], value, dtype=array.dtype)

    return [Fitted(partial(filled, value)) for value in ((0,) if additive else (1, 0))]


def _axes(name: str, shape: tuple[int, ...], told: _Telling) -> list[int | str]:
    """Each axis of a mask as ours: "b", "n", "m", or a number that stays."""
    crossing = any(r in ("k", "memory") for r in told.roles.values())
    memory = next((p for p, r in told.roles.items() if r in ("k", "memory")), "")
    asks = next((p for p, r in told.roles.items() if r in ("x", "q")), "")
    mine = bool(_words(name) & _words(asks)) and not _words(name) & _words(memory)
    found: list[int | str] = []
    for place, size in enumerate(shape):
        last = place == len(shape) - 1
        if place == 0 and size == told.batch and (len(shape) != 2 or told.queries != size or shape[0] != shape[1]):
            found.append("b")
        elif last and size == told.keys and crossing and not mine:
            found.append("m")
        elif size == told.queries:
            found.append("n")
        elif size == told.keys:
            found.append("m")
        else:
            found.append(size)
    return found


def _words(name: str) -> set[str]:
    return {word.rstrip("s") for word in name.lower().split("_")} - {"mask", "keep"}


def _size(axis: int | str, b: int, n: int, m: int) -> int:
    return {"b": b, "n": n, "m": m}[axis] if isinstance(axis, str) else axis


def _fitted(given: Any, told: _Telling) -> Any:
    """A table, ids or distances for our number of texts and tokens: their own numbers, repeated or cut."""
    array = given.detach().numpy() if isinstance(given, Tensor) else np.asarray(given)
    axes = _axes("", array.shape, told)
    if not any(isinstance(axis, str) for axis in axes):
        return Fitted(partial(_again, given))
    counting = array.ndim >= 1 and np.array_equal(array, np.broadcast_to(np.arange(array.shape[-1]), array.shape))

    def make(b: int, n: int, m: int) -> np.ndarray:
        found = array
        for place, axis in enumerate(axes):
            size = _size(axis, b, n, m)
            if counting and place == array.ndim - 1:
                found = np.broadcast_to(np.arange(size, dtype=array.dtype), (*found.shape[:-1], size)).copy()
            else:
                found = np.take(found, np.arange(size) % found.shape[place], axis=place)
        return found

    return Fitted(make)


def every(
    target: Any, found: list[Example], name: str, space: dict[str, Any]
) -> Iterator[tuple[Built, Callable[[], Iterator[Subject]]]]:
    """What can be built as the file builds it, and how each can be called."""
    for example in found:
        for built in builds(target, example, space):
            yield built, partial(subjects, built, example, name, space)
