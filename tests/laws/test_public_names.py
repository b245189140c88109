"""Every public name has an example with its result, which doctest runs."""

import doctest
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

PACKAGES = ("qkv", *(f"qkv.{name}" for name in ("attention", "mixers", "model", "text", "tracing", "train", "draw")))
HOOKS = {"forward", "extra_repr"}  # PyTorch calls these; people write module(x) and print(module)


def examples(documented: Any) -> str:
    """Return the code of the examples in an object's docstring."""
    return "".join(example.source for example in doctest.DocTestParser().get_examples(documented.__doc__ or ""))


def function_of(member: Any) -> Any:
    """Return the function of a method, class method or property; None if it is not a function."""
    if isinstance(member, staticmethod | classmethod):
        return member.__func__
    if isinstance(member, property):
        return member.fget
    member = member.func if isinstance(member, functools.cached_property) else member
    return member if inspect.isfunction(member) else None


def packages() -> str:
    """Return the code of the examples of all packages, without imports."""
    return re.sub(
        r"^from .*", "", "".join(examples(importlib.import_module(package)) for package in PACKAGES), flags=re.M
    )


def public(package: ModuleType, package_examples: str) -> Iterator[tuple[str, bool]]:
    """Yield each name of a package, its functions and methods, and whether it has an example.

    The example of its class counts for a method, and the examples of packages (`package_examples`) for any name.
    """
    for name in package.__all__:
        offered = getattr(package, name)
        has_example = bool(examples(offered)) or re.search(rf"\b{name}\b", package_examples) is not None
        if inspect.ismodule(offered):
            functions = [
                f for f in vars(offered).values() if inspect.isfunction(f) and f.__module__ == offered.__name__
            ]
            for function in functions:
                if not function.__name__.startswith("_"):
                    yield f"{name}.{function.__name__}", bool(examples(function))
            continue
        yield name, has_example
        if inspect.isclass(offered):
            for method, member in vars(offered).items():
                if method.startswith("_") or method in HOOKS or function_of(member) is None:
                    continue
                family = [kind for kind in offered.__mro__ if method in vars(kind)]
                own = any(
                    examples(function_of(vars(kind)[method])) for kind in family if function_of(vars(kind)[method])
                )
                used = re.search(rf"\.{method}\b", "".join(map(examples, offered.__mro__[:-1])) + package_examples)
                yield f"{name}.{method}", own or used is not None


@pytest.mark.parametrize("package", PACKAGES)
def test_each_has_an_example(package: str) -> None:
    bare = [name for name, has_example in public(importlib.import_module(package), packages()) if not has_example]
    assert not bare, f"{package}: write an example with its result into the docstring of {', '.join(bare)}"


def test_missing_examples_are_reported() -> None:
    """Names and methods without an example are reported; an example of a class counts for its methods."""
    package = ModuleType("made", ">>> shown_by_package(1)\n1\n")

    class Bare:
        """Nothing is shown."""

        def method(self) -> None:
            """Nor here."""

    class WithExample:
        """
        >>> WithExample().used()
        """

        def used(self) -> None: ...

        def unused(self) -> None: ...

    vars(package).update(Bare=Bare, WithExample=WithExample, shown_by_package=lambda x: x)
    package.__all__ = ["Bare", "WithExample", "shown_by_package"]  # type: ignore[attr-defined]
    assert [name for name, has_example in public(package, examples(package)) if not has_example] == [
        "Bare",
        "Bare.method",
        "WithExample.unused",
    ]
