"""Every public name has an example with its result, run by doctest: what a stranger reads first is seen to be true."""

import doctest
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

PACKAGES = ("qkv", *(f"qkv.{room}" for room in ("attention", "mixers", "model", "text", "tracing", "train", "draw")))
HOOKS = {"forward", "extra_repr"}  # PyTorch calls these; people write module(x) and print(module)


def examples(documented: Any) -> str:
    """The code of an object's own examples."""
    return "".join(example.source for example in doctest.DocTestParser().get_examples(documented.__doc__ or ""))


def behind(member: Any) -> Any:
    """The function of a method, a class method or a property; None for what is no function."""
    if isinstance(member, staticmethod | classmethod):
        return member.__func__
    if isinstance(member, property):
        return member.fget
    member = member.func if isinstance(member, functools.cached_property) else member
    return member if inspect.isfunction(member) else None


def packages() -> str:
    """The code of the packages' own examples; an import alone shows nothing."""
    return re.sub(r"^from .*", "", "".join(examples(importlib.import_module(room)) for room in PACKAGES), flags=re.M)


def public(package: ModuleType, told: str) -> Iterator[tuple[str, bool]]:
    """Each name that a package offers, with its functions and methods, and whether an example shows it.

    A method may be shown by its class's example, and a name by that of a package, which tells a longer story (`told`).
    """
    for name in package.__all__:
        offered = getattr(package, name)
        shown = bool(examples(offered)) or re.search(rf"\b{name}\b", told) is not None
        if inspect.ismodule(offered):
            functions = [
                f for f in vars(offered).values() if inspect.isfunction(f) and f.__module__ == offered.__name__
            ]
            for function in functions:
                if not function.__name__.startswith("_"):
                    yield f"{name}.{function.__name__}", bool(examples(function))
            continue
        yield name, shown
        if inspect.isclass(offered):
            for method, member in vars(offered).items():
                if method.startswith("_") or method in HOOKS or behind(member) is None:
                    continue
                family = [kind for kind in offered.__mro__ if method in vars(kind)]
                own = any(examples(behind(vars(kind)[method])) for kind in family if behind(vars(kind)[method]))
                used = re.search(rf"\.{method}\b", "".join(map(examples, offered.__mro__[:-1])) + told)
                yield f"{name}.{method}", own or used is not None


@pytest.mark.parametrize("room", PACKAGES)
def test_each_has_an_example(room: str) -> None:
    bare = [name for name, shown in public(importlib.import_module(room), packages()) if not shown]
    assert not bare, f"{room}: write an example with its result into the docstring of {', '.join(bare)}"


def test_what_has_none_is_found() -> None:
    """The law sees a name without an example, a method too, and takes an example of the class for its methods."""
    made = ModuleType("made", ">>> shown_by_package(1)\n1\n")

    class Bare:
        """Nothing is shown."""

        def method(self) -> None:
            """Nor here."""

    class Shown:
        """
        >>> Shown().used()
        """

        def used(self) -> None: ...

        def unused(self) -> None: ...

    vars(made).update(Bare=Bare, Shown=Shown, shown_by_package=lambda x: x)
    made.__all__ = ["Bare", "Shown", "shown_by_package"]  # type: ignore[attr-defined]
    assert [name for name, shown in public(made, examples(made)) if not shown] == [
        "Bare",
        "Bare.method",
        "Shown.unused",
    ]
