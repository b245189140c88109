"""Lazy imports for packages: public names are loaded at first use, so `import qkv` is fast and `steps` needs no torch."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from .moved import MOVED_NAMES, moved


def lazy(package: str, **home: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, given the module of each name (or the name of a module)."""

    def get(name: str) -> Any:
        if name not in home:
            if f"{package}.{name}" in MOVED_NAMES:
                return moved(f"{package}.{name}")
            raise AttributeError(f"{package} has no {name!r}; it has {', '.join(sorted(home))}")
        module = import_module(f"{package}.{home[name]}")
        return module if home[name].split(".")[-1] == name else getattr(module, name)

    return get, lambda: sorted(home), sorted(home)
