"""Old names of modules, functions and classes that moved: they still import, with a warning, and are removed in version 0.3."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "qkv.draw.machine": "qkv.draw.head_machine",
    "qkv.draw.paper": "qkv.draw.figure_canvas",
    "qkv.draw.rotary": "qkv.draw.rotary_figure",
    "qkv.draw.terminal": "qkv.draw.terminal_map",
    "qkv.model.config_groups": "qkv.model.config",
    "qkv.model.evaluation": "qkv.evaluation.text_metrics",
    "qkv.model.export": "qkv.formats.hf_export",
    "qkv.model.generation": "qkv.generation",
    "qkv.model.weights": "qkv.formats.model_files",
    "qkv.tracing.edits": "qkv.tracing.study.edits",
    "qkv.tracing.induction": "qkv.tracing.study.induction",
    "qkv.tracing.patterns": "qkv.tracing.study.patterns",
    "qkv.tracing.traces": "qkv.tracing.views.traces",
    "qkv.words": "qkv.i18n",
}
MOVED_NAMES = {"qkv.mixers.Head": "qkv.mixers.MixerHead", "qkv.model.load": "qkv.formats.load"}


class MovedModules:
    """Finder and loader of modules under their old names (the base classes in importlib.abc take 10 ms to import).

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     from qkv.tracing.traces import Trace
    >>> Trace.__module__, str(caught[0].message)
    ('qkv.tracing.views.traces', 'qkv.tracing.traces is now qkv.tracing.views.traces')
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for the old name of a module, else None."""
        return ModuleSpec(name, self) if name in MOVED else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return an empty module that forwards to the new one."""
        module = ModuleType(spec.name)
        new = MOVED[spec.name]
        warnings.warn(f"{spec.name} is now {new}", FutureWarning, stacklevel=2)
        moved = import_module(new)
        module.__getattr__ = lambda name: getattr(moved, name)  # type: ignore[method-assign]
        module.__dir__ = lambda: dir(moved)  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the names are in the new module."""


def moved(name: str) -> Any:
    """Return the function or class that had this name, with a warning."""
    new = MOVED_NAMES[name]
    warnings.warn(f"{name} is now {new}", FutureWarning, stacklevel=3)
    package, _, function = new.rpartition(".")
    return getattr(import_module(package), function)


def install() -> None:
    """Make old names importable."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
