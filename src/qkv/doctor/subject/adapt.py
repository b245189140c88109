"""From someone's object to something that can be probed: which argument is what, in which layout, with what else.

Names decide what is tried first; that it runs, and how its output moves with each input, decide what is kept.
"""

import contextlib
import inspect
import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from .building import Built, declared
from .capture import no_fast_path
from .errors import CannotRun
from .guess import Layer, Sizes, Weights, meaning, role, value
from .subject import Subject
from .values import cast, parameters_of, settings

_tensor = torch.tensor


def subjects(
    built: Built, *, name: str, space: dict[str, Any], call: dict[str, str] | None = None
) -> Iterator[Subject]:
    """Every way to call it that runs, likeliest first."""
    no_fast_path()
    owner = None if inspect.isroutine(built.object) else built.object
    numbers = tuple(v for v in space.values() if type(v) is int and 1 < v < 100000)[:12]
    for function, dtype in _functions(built.object):
        parameters = parameters_of(function)
        roles = _roles(parameters, call)
        for part, optional in _rounds(roles, _nameless(parameters, roles)):
            missing = [p.name for p in parameters if _wanted(p, part.get(p.name, ""), optional)]
            for framework in frameworks(built.object, space):
                for layout, width, widths in _layouts(built, function, part, framework, space):
                    for constants in _constants(missing, part, built.sizes, width, framework, layout, space):
                        found = {
                            **declared(owner),
                            **({"heads": built.chosen["heads"]} if "heads" in built.chosen else {}),
                        }
                        yield Subject(
                            name, function, owner, built.sizes, part, layout, framework, width, built.text, built.chosen,
                            {**eval_flags(parameters), **constants}, dtype, found, make=built.make, numbers=numbers, widths=widths, needed=tuple(optional),
                        )  # fmt: skip


def _nameless(parameters: list[inspect.Parameter], roles: dict[str, str]) -> list[str]:
    """What must be given and has a name that says nothing."""
    required = [p.name for p in parameters if p.default is p.empty and not roles[p.name] and not meaning(p.name)]
    return [name for name in required if not re.fullmatch(LAYER, name)]


LAYER = r"module|layer|self|attn_?(module|layer)|attention_?(module|layer)"  # that a function is handed


def _rounds(roles: dict[str, str], nameless: list[str]) -> Iterator[tuple[dict[str, str], list[str]]]:
    """First with what must be given; then also a memory, tables or a mask that have a default but are needed.

    What has a name that says nothing is most likely another text, keys and values, a mask or weights.
    """
    asks = [p for p, r in roles.items() if r in ("x", "q")]
    if len(nameless) == 2 and len(asks) == 1 and not {"k", "v", "memory"} & set(roles.values()):
        yield {**roles, asks[0]: "q", nameless[0]: "k", nameless[1]: "v"}, []
    if 0 < len(nameless) <= 3 and asks:
        for filling in itertools.product(("memory", "mask", "weights"), repeat=len(nameless)):
            if [*filling, *roles.values()].count("memory") <= 1 and filling.count("weights") <= 1:
                yield {**roles, **dict(zip(nameless, filling, strict=True))}, []
    yield roles, []
    if "memory?" in roles.values():
        yield {p: "memory" if r == "memory?" else r for p, r in roles.items()}, []
    for kind in ("frequencies", "mask"):
        if kind in roles.values():
            yield roles, [kind]
    if "frequencies" in roles.values() and "mask" in roles.values():
        yield roles, ["frequencies", "mask"]


def _wanted(parameter: inspect.Parameter, role_: str, optional: list[str]) -> bool:
    if role_ in ("x", "q", "k", "v", "memory"):
        return False
    if parameter.default is parameter.empty or role_.startswith("weight"):
        return True
    return role_ in optional and parameter.default is None


def _functions(target: Any) -> Iterator[tuple[Any, str]]:
    """What can be called: a function, a module, an object's forward / __call__ / attention method; both precisions."""
    if isinstance(target, nn.Module):
        if type(target).forward is nn.Module.forward:
            raise CannotRun("forward", "", [])
        for dtype in ("float64", "float32"):
            with contextlib.suppress(Exception):
                cast(target.eval(), getattr(torch, dtype))
                yield target, dtype
        return
    if inspect.isroutine(target):
        for dtype in ("float64", "float32"):
            yield target, dtype
        return
    for method in "forward __call__ call attention attend compute run apply self_attention compute_attention".split():
        bound = getattr(target, method, None)
        if bound is not None and inspect.ismethod(bound):
            for dtype in ("float64", "float32"):
                yield bound, dtype
    for method, bound in inspect.getmembers(target, inspect.ismethod):
        if not method.startswith("_"):
            yield bound, "float64"


def _roles(parameters: list[inspect.Parameter], call: dict[str, str] | None) -> dict[str, str]:
    """A role for each parameter; `call` {"q": "first_argument"} overrules."""
    roles: dict[str, str] = {}
    for parameter in parameters:
        found = role(parameter.name)
        if found in ("q", "k", "v", "x", "memory", "") and parameter.default not in (parameter.empty, None):
            found = ""  # a number or a flag
        if isinstance(parameter.default, bool):
            found = "flag"
        if isinstance(parameter.default, str) or re.search(r"\bstr\b", str(parameter.annotation)):
            found = ""  # a word that chooses
        if meaning(parameter.name) in ("heads", "kv_heads") and parameter.annotation is int:
            found = ""
        roles[parameter.name] = found
    for one, parameter_name in (call or {}).items():
        if parameter_name not in roles:
            raise CannotRun("names", ", ".join(roles), [])
        roles[parameter_name] = one
    names = [p.name for p in parameters]
    vectors = [p for p in names if roles[p] in ("x", "q", "k", "v", "memory")]
    required = [p.name for p in parameters if p.default is p.empty]
    unknown = [p for p in required if roles[p] == "" and meaning(p) in ("", "width")]
    # unknown names stand for what is missing: first x, then the memory
    if not any(roles[p] in ("x", "q") for p in vectors):
        for p in [*unknown, *(v for v in vectors if roles[v] == "memory")]:
            roles[p] = "x"
            break
    vectors = [p for p in names if roles[p] in ("x", "q", "k", "v", "memory")]
    have = [roles[p] for p in vectors]
    if have.count("x") > 1:  # f(x, y), f(src, tgt): the later ones are memory, unless there are three: q, k, v
        extra = [p for p in vectors if roles[p] == "x"]
        if len(extra) == 3 and "memory" not in have:
            for p, r in zip(extra, "qkv", strict=True):
                roles[p] = r
        else:
            asking = next((p for p in extra if re.search(r"trg|tgt|target|dec|^y$", p.lower())), extra[0])
            for p in extra:
                if p != asking:
                    roles[p] = "memory" if "memory" not in [roles[o] for o in vectors] else ""
    have = [roles[p] for p in vectors]
    if "x" in have and "k" in have and "q" not in have:
        roles[vectors[have.index("x")]] = "q"
    for p in vectors:  # optional ones are left alone, except memory and k, v beside q
        default = next(q.default for q in parameters if q.name == p)
        if default is None and roles[p] == "memory":
            roles[p] = "memory?"
        elif default is None and roles[p] in ("q", "k", "v") and "x" in have:
            roles[p] = roles[p] + "?"
    return roles


def eval_flags(parameters: list[inspect.Parameter]) -> dict[str, bool]:
    """Flags of the call that are set for training by default, set for evaluation."""
    return {p.name: False for p in parameters if p.default is True and re.fullmatch(r"(is_)?train(ing)?", p.name)}


def frameworks(target: Any, space: dict[str, Any]) -> list[str]:
    if isinstance(target, nn.Module):
        return ["torch"]
    values = list(getattr(target, "__dict__", {}).values())
    if any(isinstance(v, np.ndarray) for v in values):
        return ["numpy", "torch"]
    if any(isinstance(v, (Tensor, nn.Module)) for v in values):
        return ["torch", "numpy"]
    code = getattr(getattr(target, "__func__", target), "__code__", None)
    names = set(code.co_names) if code else set()
    for constant in code.co_consts if code else ():
        names |= set(getattr(constant, "co_names", ()))
    modules = {n: getattr(space.get(n), "__name__", "") for n in names}
    uses_numpy = any(m.split(".")[0] == "numpy" for m in modules.values())
    uses_torch = any(m.split(".")[0] == "torch" for m in modules.values()) or any(
        getattr(space.get(n), "__module__", "") == "torch.nn.functional" for n in names
    )
    if not uses_numpy and not uses_torch:
        has = {getattr(v, "__name__", "").split(".")[0] for v in space.values() if inspect.ismodule(v)}
        uses_numpy, uses_torch = "numpy" in has and "torch" not in has, "torch" in has
    if uses_numpy and not uses_torch:
        has = {getattr(v, "__name__", "").split(".")[0] for v in space.values() if inspect.ismodule(v)}
        return ["numpy", "torch"] if "torch" in has else ["numpy"]
    return ["torch", "numpy"]


def named_heads(function: Any, space: dict[str, Any]) -> list[int]:
    """Head widths among the globals that its code reads: it can be called with that width alone."""
    if isinstance(function, nn.Module):
        function = type(function).forward
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    names = code.co_names if code is not None else ()
    return [space[n] for n in names if type(space.get(n)) is int and meaning(n) == "head" and 1 < space[n] <= 1024]


def _layouts(
    built: Built, function: Any, roles: dict[str, str], framework: str, space: dict[str, Any]
) -> Iterator[tuple[str, int, dict[str, int]]]:
    sizes = built.sizes
    owner = built.object
    has_weights = isinstance(owner, nn.Module) and (_lazy(owner) or any(p.dim() >= 2 for p in owner.parameters()))
    if not isinstance(owner, nn.Module) and not inspect.isroutine(owner):
        has_weights = any(hasattr(v, "shape") and getattr(v, "ndim", 0) >= 2 for v in vars(owner).values()) or any(
            isinstance(v, nn.Module) for v in vars(owner).values()
        )
    takes_weights = any(r.startswith("weight") for r in roles.values())
    if _lazy(owner):
        for layout in ("bnc", "nc"):
            yield layout, sizes.width, {}
        return
    if not has_weights and not takes_weights:
        if {"q", "k"} <= set(roles.values()):
            for head in (*named_heads(function, space), sizes.head):
                yield "bhnd", head, {}
                yield "bnc", head, {}
                yield "nc", head, {}
            yield "bnc", sizes.width, {}
            return
        for width in (sizes.width, sizes.head):
            for layout in ("bnc", "nc", "bhnd"):
                yield layout, width, {}
        return
    if isinstance(owner, nn.Module) and any(isinstance(m, nn.Embedding) for m in owner.modules()):
        yield "ids", 0, {}
        if "memory" in roles.values():
            yield "ids", 0, {"memory": sizes.width}
    for width, widths in input_widths(owner, sizes, roles, built.chosen):
        for layout in ("bnc", "nc"):
            yield layout, width, widths
    yield "ids", 0, {}
    yield "bhnd", sizes.head, {}


def _lazy(owner: Any) -> bool:
    """Whether it has layers that learn their width from the first input."""
    return isinstance(owner, nn.Module) and any(isinstance(p, UninitializedParameter) for p in owner.parameters())


def input_widths(
    owner: Any, sizes: Sizes, roles: dict[str, str], chosen: dict[str, Any]
) -> Iterator[tuple[int, dict[str, int]]]:
    """Widths of an input vector that the weights could take, likeliest first; also with a memory of its own width."""
    found: list[int] = []
    if "width" in chosen and isinstance(chosen["width"], int):
        found.append(chosen["width"])
    if isinstance(owner, nn.Module):
        linears = [m for m in owner.modules() if isinstance(m, nn.Linear)]
        found += [m.in_features for m in linears]
        found += [p.shape[0] for p in owner.parameters() if p.dim() == 2] + [
            p.shape[-1] for p in owner.parameters() if p.dim() == 2
        ]
        found += [p.shape[-2] for p in owner.parameters() if p.dim() == 3]
    elif owner is not None and not inspect.isroutine(owner):
        for v in vars(owner).values():
            if isinstance(v, nn.Linear):
                found.append(v.in_features)
            elif getattr(v, "ndim", 0) == 2:
                found += list(v.shape)
    found.append(sizes.width)
    unique = list(dict.fromkeys(found))[:4]
    for width in unique:
        yield width, {}
    if "memory" in roles.values() or "k" in roles.values():
        for width, other in itertools.permutations(unique, 2):
            yield width, {"memory": other, "k": other, "v": other}
        for width, key, third in itertools.permutations(unique, 3):
            yield width, {"k": key, "v": third}


def _constants(
    missing: list[str],
    roles: dict[str, str],
    sizes: Sizes,
    width: int,
    framework: str,
    layout: str,
    space: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Values for required parameters that are no vectors."""
    together: dict[str, list[list[Any]]] = {}  # masks, or the tables cos and sin, are of one kind: tried side by side
    names: dict[str, list[str]] = {}
    for name in missing:
        one = roles.get(name, "")
        key = one if one in ("mask", "frequencies") else name
        together.setdefault(key, []).append(_values(name, one, sizes, width, framework, layout, space))
        names.setdefault(key, []).append(name)
    groups = [
        [dict(zip(names[key], row, strict=True)) for row in zip(*columns, strict=False)]
        for key, columns in together.items()
    ]
    for filling in itertools.islice(itertools.product(*groups), 200):
        yield {name: given for part in filling for name, given in part.items()}


def _values(
    name: str, one: str, sizes: Sizes, width: int, framework: str, layout: str, space: dict[str, Any]
) -> list[Any]:
    n, d, random = sizes.queries, sizes.head, np.random.default_rng(5)
    width = width or sizes.width
    number = (lambda a: a) if framework == "numpy" else (lambda a: _tensor(a))
    if one == "weights":
        return [Weights(width, framework)]
    if one.startswith("weight"):
        draw = {letter: random.standard_normal((width, width)) * width**-0.5 for letter in "qkvo"}
        return [number(draw[one[-1]])]
    if one == "mask":
        b = sizes.batch
        shapes = [(b, 1, n, n), (b, n, n), (n, n), (b, 1, 1, n), (b, n)] if layout != "nc" else [(n, n)]
        kinds: list[Any] = [lambda s: np.ones(s, bool), lambda s: np.zeros(s, bool), np.ones, np.zeros]
        return [None, *(number(kind(s)) for s in shapes for kind in kinds)]
    if one == "segment":
        return [number(np.zeros((sizes.batch, n), np.int64))]
    if one == "lengths":
        return [None, number(np.full(sizes.batch, n))]
    if one == "flag":
        return [False, True]
    if one == "dropout":
        return [None, 0.0]
    if one == "cache":
        return [None, {}, False]
    if one == "start":
        return [0, number(np.arange(n))]
    if one == "positions":
        return [number(np.arange(n)), number(np.arange(n)[None].repeat(sizes.batch, 0)), 0, None]
    if one == "scale":
        return [d**-0.5, None]
    if one == "frequencies":
        return frequencies(name, sizes, space)
    word = meaning(name)
    if word == "config":
        return [None, {}]
    if word:
        return [value(word, sizes, name), None]
    if re.fullmatch(LAYER, name):
        return [Layer(), None]
    return [None, 1, True, sizes.heads]


def own_tables(name: str, sizes: Sizes, space: dict[str, Any]) -> list[Any]:
    """Rotary tables by the file's own makers, whole and cut to the text's length."""
    made = []
    for maker in [m for other, m in list(space.items()) if inspect.isfunction(m) and re.search(MAKERS, other.lower())]:
        got = made_table(maker, sizes.head, sizes.context)
        if got is None:
            continue
        parts = list(got) if isinstance(got, (tuple, list)) else [got]
        which = wave_of(name)
        made.append(parts[which] if len(parts) == 2 and which is not None else got)
    return _and_cut(made, sizes.queries)


def wave_of(name: str) -> int | None:
    """0 for a table of cosines by its name, 1 for sines, None for both in one.

    >>> wave_of("freqs_cos"), wave_of("sin"), wave_of("cos_sin"), wave_of("freqs_cis")
    (0, 1, None, None)
    """
    held = [wave in name.lower() for wave in ("cos", "sin")]
    return held.index(True) if sum(held) == 1 else None


def frequencies(name: str, sizes: Sizes, space: dict[str, Any]) -> list[Any]:
    """Rotary tables: by the file's own maker if it has one, then the usual ones."""
    places = torch.arange(sizes.context, dtype=torch.float64)[:, None]
    angles = places * 10000.0 ** (-torch.arange(0, sizes.head, 2, dtype=torch.float64) / sizes.head)
    halves, turns = torch.cat([angles, angles], -1), angles.repeat_interleave(2, -1)
    wave = torch.sin if "sin" in name.lower() else torch.cos
    usual = [
        (halves.cos()[None], halves.sin()[None]),
        torch.polar(torch.ones_like(angles), angles),
        wave(halves),
        wave(turns),
        wave(angles),
        (halves.cos(), halves.sin()),
        wave(halves)[None, None],
        wave(halves)[None],
        angles,
        halves,
    ]
    if wave_of(name) is not None:
        usual = [
            one
            for one in usual
            if isinstance(one, Tensor) and not one.is_complex() and one is not angles and one is not halves
        ]
    return [*own_tables(name, sizes, space), *_and_cut(usual, sizes.queries)]


def _and_cut(tables: list[Any], n: int) -> list[Any]:
    return [one for table in tables for one in (table, _cut(table, n)) if one is not None]


MAKERS = r"^(?!.*(apply|rotate_)).*(freq|precompute|rope|rotary|cos_sin|sin_cos)"


def made_table(maker: Any, d: int, n: int) -> Any:
    """A table of the file's own, its maker's arguments told by their names, else by their order."""
    known = {"head": d, "width": d, "context": n, "base": 10000.0, "device": "cpu", "dtype": torch.float64}
    required = [p for p in parameters_of(maker) if p.default is p.empty]
    words = {p.name: meaning(p.name) or ("context" if p.name == "end" else "") for p in required}
    by_name = {name: known[word] for name, word in words.items() if word in known}
    attempts: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((), by_name)] if len(by_name) == len(required) else []
    attempts += [((d, n), {}), ((n, d), {}), ((d, n, 10000.0), {}), ((d, n, "cpu"), {})]
    for arguments, named in attempts:
        try:
            with settings("float64"):
                return maker(*arguments, **named)
        except Exception:
            continue
    return None


def _cut(table: Any, n: int) -> Any:
    if isinstance(table, Tensor):
        axis = next((a for a, s in enumerate(table.shape) if s > n and a < table.dim() - 1), None)
        return None if axis is None else table.narrow(axis, 0, n)
    if isinstance(table, tuple) and all(isinstance(t, Tensor) for t in table):
        cuts = tuple(_cut(t, n) for t in table)
        return None if any(c is None for c in cuts) else cuts
    return None
