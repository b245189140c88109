"""How to construct someone's class: what its parameters mean by name, and where names lie, what runs."""

import contextlib
import copy
import dataclasses
import inspect
import itertools
import random
import re
import typing
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .errors import Spent, endless
from .guess import ConfigStub, Sizes, asked_of, current_draw, meaning, value
from .values import parameters_of, settings

_seed = torch.default_generator.manual_seed  # subject.py says why


@dataclass
class Built:
    """An object that could be constructed, and with what."""

    object: Any
    text: str
    chosen: dict[str, Any]
    sizes: Sizes
    make: Callable[..., Any] | None = None


def builds(
    target: type,
    sizes: Sizes,
    args: dict[str, Any] | None,
    space: dict[str, Any],
    failures: list[BaseException] | None = None,
) -> Iterator[Built]:
    """Every way to construct it that works, likeliest first; `failures` gets what stopped the others."""
    seen: set[str] = set()
    for overridden, arguments, chosen in _attempts(target, sizes, args, space):
        text = f"{target.__name__}({', '.join(f'{k}={_shown(v)}' for k, v in arguments.items())})"
        kinds = [(type(v).__name__, isinstance(v, ConfigStub) and vars(v)["_lenient"]) for v in arguments.values()]
        if (key := f"{text} {overridden} {kinds}") in seen:
            continue
        seen.add(key)
        try:
            space.update(overridden)  # and stays so, since forward reads it too
            made = construct(target, arguments)
        except (KeyboardInterrupt, Spent):
            raise
        except BaseException as error:
            if failures is not None:
                failures.append(error)
            if endless(error):
                break
            continue
        answered = {
            meaning(k): v for one in arguments.values() if isinstance(one, ConfigStub) for k, v in asked_of(one).items()
        }
        scales = {word: v for word, v in answered.items() if word in ("scale", "temperature")}
        yield Built(
            made,
            text,
            {**chosen, **scales, **{f"global {k}": v for k, v in overridden.items()}},
            sizes,
            partial(construct, target, arguments, dtype=None),
        )


def construct(target: Any, arguments: dict[str, Any], dtype: str | None = "float64", seed: int = 0) -> Any:
    """Build an object from a seed, in a precision or in the one that is set.

    Weights and buffers that its code leaves uninitialised (`torch.empty`) are drawn from the seed too: whatever lies in
    memory would give another verdict every time.
    """
    with settings(dtype) if dtype is not None else contextlib.nullcontext(), _nan_where_uninitialised():
        seed += 1000 * current_draw().seed
        _seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        made = target(**arguments)
    if isinstance(made, nn.Module):
        _draw_uninitialised(made)
    return made


@contextlib.contextmanager
def _nan_where_uninitialised() -> Iterator[None]:
    """Let torch fill new memory with NaN. (torch.use_deterministic_algorithms imports the compiler first, 0.7 CPU s.)"""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch._C._set_deterministic_algorithms(before[0], warn_only=before[1])


@torch.no_grad()
def _draw_uninitialised(module: nn.Module) -> None:
    """Replace NaN in weights and buffers by numbers from a seed, matrices as wide as nn.Linear's."""
    for name, tensor in itertools.chain(module.named_parameters(), module.named_buffers()):
        if isinstance(tensor, nn.UninitializedParameter) or not tensor.is_floating_point():
            continue
        if bool((unset := tensor.isnan()).any()):
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            width = tensor.shape[-1] ** -0.5 if tensor.dim() > 1 else 0.1
            drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float64) * width
            tensor[unset] = drawn.to(tensor)[unset]


def _shown(given: Any) -> str:
    if isinstance(given, ConfigStub):
        return (
            "{" + ", ".join(f"{k}: {v}" for k, v in asked_of(given).items()) + "}"
            if asked_of(given)
            else "configuration"
        )
    if isinstance(given, nn.Module):
        return type(given).__name__ + "(…)"
    if callable(given):
        return getattr(given, "__name__", "function")
    shown = repr(given)
    return shown if len(shown) <= 60 and "\n" not in shown else f"{type(given).__name__}(…)"


def _attempts(
    target: type, sizes: Sizes, args: Any, space: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    parameters = parameters_of(target)
    overridden = _sized_globals(space, sizes)
    if args is not None:
        chosen = {meaning(k): v for k, v in args.items()}
        rest: dict[str, Any] = {}
        for parameter in parameters:
            if parameter.name not in args and parameter.default is parameter.empty:
                guessed = _guess(target, parameter, sizes, space, "strict")
                if guessed is not None:
                    rest[parameter.name] = guessed
        yield {}, {**rest, **args}, chosen
        return
    for mode in (
        "real",
        "strict",
        "lenient",
    ):  # a configuration of the file's own, sized; one that answers; one that answers anything
        wholes = {k: v for k, v in overridden.items() if meaning(k) != "head"}  # a global head width may be the mistake
        for scope in [wholes, overridden, {}] if overridden else [{}]:
            for defaults in (True, False):  # also say what has a default
                arguments, chosen = {}, {}
                open_: list[str] = []
                for parameter in parameters:
                    required = parameter.default is parameter.empty
                    word = meaning(parameter.name)
                    if not required and defaults and mode == "real" and _has_sizes(parameter, sizes):
                        arguments[parameter.name] = sized(parameter.default, sizes)
                        continue
                    if not required and (
                        not defaults
                        or word
                        in (
                            "",
                            "flag",
                            "config",
                            "base",
                            "eps",
                            "device",
                            "dtype",
                            "activation",
                            "window",
                            "ratio",
                            "layers",
                        )
                    ):
                        continue
                    if not required and isinstance(parameter.default, bool):
                        continue
                    if (
                        not required
                        and parameter.default is None
                        and word not in ("width", "heads", "kv_heads", "context", "dropout", "index")
                    ):
                        continue
                    given = _guess(target, parameter, sizes, space, mode)
                    if given is None and required:
                        open_.append(parameter.name)
                        continue
                    if given is not None:
                        arguments[parameter.name] = given
                        if word:
                            chosen.setdefault(word, given)
                for filling in itertools.islice(_fillings(open_, "width" in chosen, sizes), 30):
                    filled = dict(zip(open_, filling, strict=True))
                    unnamed = {f"unknown {name}": one for name, one in filled.items()}
                    yield scope, {**arguments, **filled}, {**chosen, **unnamed}
    # Names lie: every integer as a width, a number of heads, a head's width
    required_ = [p.name for p in parameters if p.default is p.empty]
    if 0 < len(required_) <= 4:
        for filling in _fillings(required_, False, sizes, ()):
            filled = dict(zip(required_, filling, strict=True))
            yield {}, filled, {f"unknown {name}": one for name, one in filled.items()}
        for one in required_:  # or one of them is a configuration, whatever it is called
            given = {p.name: _guess(target, p, sizes, space, "lenient") for p in parameters if p.name in required_}
            yield {}, {**given, one: ConfigStub(sizes, None, True)}, {}
    yield {}, {}, {}


def _fillings(
    names: list[str], has_width: bool, sizes: Sizes, others: tuple[Any, ...] = (True, None)
) -> Iterator[tuple[Any, ...]]:
    """Values for what has a name that says nothing: different ones first, as two widths are rarer than width and heads."""
    first = (sizes.heads, sizes.head, sizes.width) if has_width else (sizes.width, sizes.heads, sizes.head)
    fillings = itertools.product((*first, *others), repeat=len(names))
    few = itertools.islice(fillings, 700)  # of many names not all
    yield from sorted(few, key=lambda filling: len(set(map(repr, filling))) < len(filling))


def _guess(target: type, parameter: inspect.Parameter, sizes: Sizes, space: dict[str, Any], mode: str) -> Any:
    word = meaning(parameter.name)
    annotation = _annotated(parameter, space)
    if word == "config" or _is_config(annotation):
        real = _real_config(target, annotation, parameter, space)
        if mode == "real" and (own := sized(real, sizes)) is not None:
            return own
        return ConfigStub(sizes, real, mode == "lenient")
    if word == "" or (word in ("width", "feedforward") and re_module(parameter.name)):
        made = _part(parameter.name, sizes, space)
        if made is not None:
            return made
    if word:
        return value(word, sizes, parameter.name)
    return None


def _annotated(parameter: inspect.Parameter, space: dict[str, Any]) -> Any:
    """What a parameter is annotated with; a name in quotes and `Optional[…]` are looked through."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        plain = re.sub(r"\s*\|\s*None|None\s*\|\s*|^(typing\.)?Optional\[(.+)\]$", r"\2", annotation).strip("\"' ")
        return space.get(plain, plain)
    inner = [one for one in typing.get_args(annotation) if one is not type(None)]
    return inner[0] if len(inner) == 1 and type(None) in typing.get_args(annotation) else annotation


def _is_config(annotation: Any) -> bool:
    """Whether a class holds settings: it is called so, or its fields are sizes; a layer or a tensor is none."""
    if not inspect.isclass(annotation) or annotation.__module__ in ("builtins", "typing", "collections.abc"):
        return False
    if issubclass(annotation, (nn.Module, Tensor)):
        return False
    if re.search(r"config|cfg|args|arguments|params|settings|options", annotation.__name__.lower()):
        return True
    fields = {**getattr(annotation, "__annotations__", {}), **vars(annotation)}
    return {"width", "heads"} <= {meaning(name) for name in fields if not name.startswith("_")}


def re_module(name: str) -> bool:
    """Whether a parameter of a layer is itself a layer: EncoderLayer(size, self_attn, feed_forward, dropout)."""
    return (
        re.sub(r"_?(block|layer|module)$", "", name.lower().strip("_"))
        in (
            "feed_forward ff ffn mlp feedforward self_attn src_attn "
            "attn attention cross_attn self_attention cross_attention mha sublayer"
        ).split()
    )


def _part(name: str, sizes: Sizes, space: dict[str, Any]) -> Any:
    """A layer handed to a layer's constructor: the class of the same file that its name speaks of."""
    if not re_module(name):
        return None
    wanted = ("attention", "attn") if "att" in name or name == "mha" else ("feed", "ffn", "mlp", "forward")
    classes = [
        c for c in space.values() if inspect.isclass(c) and issubclass(c, nn.Module) and c.__module__ != "torch.nn"
    ]
    classes = [c for c in classes if any(w in c.__name__.lower() for w in wanted)]
    classes.sort(key=lambda c: ("multi" not in c.__name__.lower(), len(c.__name__)))
    for one in classes:
        for built in builds(one, sizes, None, space):
            return built.object
    return None


def sized(real: Any, sizes: Sizes) -> Any:
    """A copy of someone's configuration with our sizes in the fields whose names speak of sizes; None where it has none."""
    if real is None or inspect.isclass(real):
        return None
    fields = dict(real) if isinstance(real, dict) else dict(getattr(real, "__dict__", {}))
    ours = {}
    for name, given in fields.items():
        word = meaning(name)
        number = isinstance(given, (int, float)) and not isinstance(given, bool)
        if name.startswith("chunk"):
            continue
        if word in SIZED and (number or (given is None and word in ("kv_heads", "head"))):
            ours[name] = value(word, sizes, name)
    if not {meaning(name) for name in ours} & {"width", "heads"}:
        return None
    if isinstance(real, dict):
        return {**fields, **ours}
    if dataclasses.is_dataclass(real):
        try:
            return dataclasses.replace(real, **ours)  # type: ignore[type-var]
        except (TypeError, ValueError):
            return None
    try:
        made = copy.deepcopy(real)
        for name, given in ours.items():
            setattr(made, name, given)
    except Exception:
        return None
    return made


def _has_sizes(parameter: inspect.Parameter, sizes: Sizes) -> bool:
    """True if a default is a configuration: GPT(config=GPTConfig()) would be a whole GPT-2 otherwise."""
    default = parameter.default
    is_config = meaning(parameter.name) == "config" or _is_config(type(default))
    return is_config and default is not None and sized(default, sizes) is not None


SIZED = ("width", "heads", "kv_heads", "head", "context", "vocabulary", "layers", "feedforward", "dropout")


def _real_config(target: type, annotation: Any, parameter: inspect.Parameter, space: dict[str, Any]) -> Any:
    """A configuration of the user's own: of several, the one that has most of what the constructor asks for."""
    if parameter.default not in (parameter.empty, None):
        return parameter.default
    begins = inspect.getattr_static(target, "__init__", None)
    asked = set(getattr(getattr(begins, "__code__", None), "co_names", ()))
    candidates: list[Any] = [annotation] if inspect.isclass(annotation) and annotation is not dict else []
    for name, found in space.items():
        if "config" in name.lower() or "args" in name.lower() or "cfg" in name.lower():
            candidates.append(found)
    made = []
    for candidate in candidates:
        if inspect.isroutine(candidate) or inspect.ismodule(candidate):
            continue
        if inspect.isclass(candidate) and not issubclass(candidate, nn.Module):
            try:
                candidate = candidate()
            except Exception:
                pass  # its class attributes may do
        if isinstance(candidate, dict) or hasattr(candidate, "__dict__"):
            made.append(candidate)

    def has(candidate: Any) -> int:
        return len(asked & set(candidate if isinstance(candidate, dict) else dir(candidate)))

    return max(made, key=has, default=None)


def _sized_globals(space: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    """Plain numbers among a file's globals whose names speak of sizes, as ours."""
    found = {}
    for name, given in space.items():
        if isinstance(given, bool) or not isinstance(given, (int, float)) or name.startswith("_"):
            continue
        word = meaning(name)
        if (
            isinstance(given, int)
            and word in ("width heads kv_heads head context vocabulary layers feedforward").split()
        ):
            if len(name) > 1:
                found[name] = value(word, sizes, name)
        elif word == "dropout":
            found[name] = 0.5
    return found


def declared(owner: Any) -> dict[str, int]:
    """The sizes that an object itself names: self.num_heads, self.head_dim…"""
    found: dict[str, int] = {}
    for name, given in list(getattr(owner, "__dict__", {}).items()):
        if isinstance(given, int) and not isinstance(given, bool) and given > 0:
            word = meaning(name)
            if word in ("heads", "kv_heads", "head", "window"):
                found.setdefault(word, given)
        elif given is True and re.search(r"causal|autoregress", name):
            found["causal"] = 1
        elif isinstance(given, nn.ModuleList) and "head" in name.lower():
            found.setdefault("heads", len(given))
    for name, given in list(getattr(owner, "_modules", {}).items()):
        if isinstance(given, nn.ModuleList) and "head" in name.lower():
            found.setdefault("heads", len(given))
    for config in ("config", "cfg", "args"):
        inner = getattr(owner, config, None)
        if inner is not None and not isinstance(inner, nn.Module):
            pairs = (
                asked_of(inner).items()
                if isinstance(inner, ConfigStub)
                else list(vars(inner).items())
                if hasattr(inner, "__dict__")
                else []
            )
            for name, given in pairs:
                if (
                    isinstance(given, int)
                    and not isinstance(given, bool)
                    and meaning(name) in ("heads", "kv_heads", "head")
                ):
                    found.setdefault(meaning(name), given)
    return found
