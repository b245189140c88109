"""The module that a user's file would be: files beside it are found as Python would find them, and read as it is."""

import ast
import builtins
import importlib
import importlib.util
import linecache
import sys
import types
from pathlib import Path
from typing import Any

from ...i18n import Problem
from . import standins
from .coverage import RAN, Ran
from .file import Source, read

MOST_PARENTS = 4


class Module(types.ModuleType):
    """The module that a file would be; its names are loaded when somebody asks for them."""

    def __init__(self, source: Source) -> None:
        # Python's dataclasses look their module up by name: it gets one that is nobody else's.
        name, file = f"checked_{source.path.stem}", str(source.path)
        while getattr(sys.modules.get(name), "__file__", file) != file:
            name += "_"
        super().__init__(name)
        sys.modules[name] = self
        self.__file__ = file
        self.source, self.soft = source, False
        self.ran = Ran()  # blocks of its definitions
        self.__dict__[RAN] = self.ran.begun.add
        self.known: dict[Path, Module] = {source.path.resolve(): self}
        self.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import, "display": lambda *_, **__: None}
        text = source.text if source.text.endswith("\n") else source.text + "\n"
        linecache.cache[str(source.path)] = (len(text), None, text.splitlines(True), str(source.path))

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [one for one in self.source.loader.names() if self.has(one)]
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.source.loader.load(name)
        except Problem as problem:
            if (below := self._below(self.source.path.parent, name)) is not None and self._is_package:
                return below
            raise AttributeError(str(problem)) from None

    @property
    def _is_package(self) -> bool:
        return self.source.path.name == "__init__.py"

    def has(self, name: str) -> bool:
        try:
            self.source.loader.load(name)
        except Problem:
            return False
        return True

    def member(self, found: Any, name: str, node: ast.ImportFrom) -> Any:
        """`name` of a module, or the module below it of that name, or a stand-in."""
        if isinstance(found, FolderModule | Module | standins.Standin):
            try:
                return getattr(found, name)
            except AttributeError as error:
                where = found.__name__
                why = str(error) if isinstance(found, Module) else f"cannot import name {name!r} from {where!r}"
                return standins.Standin(f"{where}.{name}", why)
        try:
            return getattr(found, name)
        except AttributeError:
            pass
        try:
            return importlib.import_module(f"{found.__name__}.{name}")
        except ImportError:
            return standins.Standin(
                f"{found.__name__}.{name}", f"cannot import name {name!r} from {found.__name__!r} as installed here"
            )

    def find(self, name: str, level: int, *, soft: bool, whole: bool) -> Any:
        """The module of that name: beside the file, else installed, else (if `soft`) a stand-in."""
        first = name.split(".")[0]
        try:
            local = self._local(name, level)
        except ImportError as error:  # it is there, and is no Python
            if not soft:
                raise
            return standins.Standin(name or ".", str(error))
        if local is not None:
            return local if whole or level else self._local(first, 0)
        if level:
            if installed := _installed_as(self.source.path, level):
                name = f"{installed}.{name}".rstrip(".")
                level = 0
            elif soft:
                return standins.Standin("." * level + name, f"No module named {'.' * level + name!r} beside the file")
            else:
                raise ImportError(f"No module named {'.' * level + name!r} beside {self.source.path.name}", name=name)
        if soft and first in standins.LATER:
            return standins.Standin(name if whole else first)
        try:
            leaf = importlib.import_module(name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if not soft:
                if isinstance(error, ModuleNotFoundError) and not standins.is_loading():
                    standins.missed.add(first)
                raise
            why = str(error) if isinstance(error, ImportError) else f"importing {name} failed: {told(error)}"
            return standins.Standin(name if whole else first, why)
        return leaf if whole else sys.modules[first]

    def _import(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        """What `import` does in the user's functions: files beside theirs are found, absent packages raise."""
        found = self.find(name, level, soft=self.soft, whole=bool(fromlist))
        for one in fromlist or ():
            if one != "*" and isinstance(found, types.ModuleType) and not isinstance(found, Module | FolderModule):
                try:
                    getattr(found, one)
                except AttributeError:
                    try:
                        importlib.import_module(f"{found.__name__}.{one}")
                    except ImportError:
                        pass
        return found

    def _local(self, name: str, level: int) -> Any:
        """A module in a file beside this one, or in a folder above it, as Python would find it from there."""
        folder = self.source.path.resolve().parent
        parts = name.split(".") if name else []
        if level and _installed_as(self.source.path, level):
            return None
        if level:
            for _ in range(level - 1):
                folder = folder.parent
            return self._at(folder, parts)
        if parts[0] in ("torch", "numpy") or parts[0] in sys.builtin_module_names:
            return None
        if parts[0] in sys.stdlib_module_names and self._below(folder, parts[0]) is None:
            return None
        package = folder
        while (package / "__init__.py").exists() and package.parent != package:
            package = package.parent
        for root in dict.fromkeys((folder, package)):
            if (found := self._at(root, parts)) is not None and not self._is_self(found, parts):
                return found
        spec = importlib.util.find_spec(parts[0])
        if spec is None or (
            spec.origin and Path(spec.origin).resolve().parent == folder
        ):  # model/model.py is no package
            for root in list(folder.parents)[:MOST_PARENTS]:
                if (found := self._at(root, parts)) is not None:
                    return found
        return None

    def _is_self(self, found: Any, parts: list[str]) -> bool:
        """A file einops.py that imports einops means the package."""
        return found is self and importlib.util.find_spec(parts[0]) is not None

    def _at(self, folder: Path, parts: list[str]) -> Any:
        found: Any = self._file(folder / "__init__.py") or FolderModule(folder, self) if not parts else None
        for part in parts:
            found = self._below(folder, part)
            if found is None:
                return None
            folder = folder / part
        return found

    def _below(self, folder: Path, name: str) -> Any:
        """The module or package of that name in a folder."""
        package = folder / name
        found = self._file(package / "__init__.py") or self._file(folder / f"{name}.py")
        if found is None and package.is_dir() and (any(package.glob("*.py")) or any(package.glob("*/*.py"))):
            return FolderModule(package, self)
        return found

    def _file(self, path: Path) -> "Module | None":
        if not path.is_file():
            return None
        path = path.resolve()
        if path not in self.known:
            try:
                module = read(path).loader.module
            except Problem as problem:
                raise ImportError(str(problem), name=path.stem) from None
            module.known = self.known
            self.known[path] = module
        return self.known[path]


class FolderModule(types.ModuleType):
    """A folder of Python files without an __init__.py."""

    def __init__(self, folder: Path, owner: Module) -> None:
        super().__init__(folder.name)
        self._folder, self._owner = folder, owner

    def __getattr__(self, name: str) -> Any:
        found = None if name.startswith("_") else self._owner._below(self._folder, name)
        if found is None:
            raise AttributeError(name)
        return found


def _installed_as(path: Path, level: int) -> str:
    """The package that `level` dots mean in a file of an installed package: there Python's own import is right."""
    folder, names = path.resolve().parent, list[str]()
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    inside = names[: len(names) - level + 1]
    return ".".join(inside) if folder.name in ("site-packages", "dist-packages") else ""


def told(error: BaseException) -> str:
    """An error as the last line of its traceback says it."""
    if isinstance(error, Problem):
        return str(error)
    try:
        text = str(error).strip().split("\n")[0][:300]
    except BaseException:  # an exception of the user's that can't even be printed
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
