"""Names that a package offers, loaded when first used: `import qkv` costs nothing, and `steps` needs no torch."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from .moved import moved


def lazy(package: str, **home: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """A package's `__getattr__`, `__dir__` and `__all__`: each name with the module it lives in, itself if that is it."""

    def get(name: str) -> Any:
        if name not in home:
            if (found := moved(f"{package}.{name}")) is not None:
                return found
            raise AttributeError(f"{package} has no {name!r}; it has {', '.join(sorted(home))}")
        module = import_module(f"{package}.{home[name]}")
        return module if home[name].split(".")[-1] == name else getattr(module, name)

    return get, lambda: sorted(home), sorted(home)
