"""What stands where a user's file asks for a package that isn't here, or a graphics card that isn't needed.

A stand-in lets the file be read (names looked up, classes derived, decorators applied) and raises ImportError with the
package's name only when its numbers would be needed.
"""

import importlib
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

# Slow to import and never part of the arithmetic of attention: imported only if something really calls them.
LATER = frozenset(
    "matplotlib seaborn plotly pandas wandb tensorboard tensorboardX tqdm PIL cv2 sklearn datasets torchvision torchtext "
    "torchaudio tiktoken IPython bertviz nltk spacy gradio streamlit comet_ml mlflow".split()
)
# A class of an absent package with such a name is one of layers: what derives from it is a module.
LAYERS = ("Module", "Model", "Layer", "Block", "Attention", "Encoder", "Decoder", "Transformer")

missed: set[str] = set()  # packages that were called for while they were absent
_loading = 0  # how many files are being read; while one is, a stand-in that is called gives a stand-in


@contextmanager
def loading() -> Iterator[None]:
    """While a file is read, decorators of absent packages let their function pass."""
    global _loading
    _loading += 1
    try:
        yield
    finally:
        _loading -= 1


def is_loading() -> bool:
    """Whether a file is being read."""
    return _loading > 0


class Standin:
    """Something of a package that is absent, or that is imported only when it is used."""

    _path: str
    _why: str

    def __init__(self, path: str, why: str = "") -> None:
        self.__dict__.update(_path=path, _why=why, __name__=path.split(".")[-1], __doc__=None)

    def _real(self) -> Any:
        """The thing itself, where the package is here after all; else ImportError naming it."""
        if self._why:
            raise self._missing(self._why)
        names = self._path.split(".")
        for cut in range(len(names), 0, -1):
            try:
                found = importlib.import_module(".".join(names[:cut]))
            except ModuleNotFoundError as error:
                if cut == 1:
                    raise self._missing(f"No module named {names[0]!r}") from error
                continue
            for name in names[cut:]:
                found = getattr(found, name)
            return found
        raise AssertionError

    @property
    def absent(self) -> bool:
        """Whether it can't be had."""
        try:
            self._real()
        except Exception:
            return True
        return False

    def _missing(self, why: str) -> ImportError:
        package = self._path.split(".")[0]
        if not _loading and package and "No module named" in why and "beside" not in why:
            missed.add(package)
        return ImportError(why, name=package)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if _loading or self._why:
            return Standin(f"{self._path}.{name}", self._why)
        return getattr(self._real(), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not _loading:
            return self._real()(*args, **kwargs)
        if len(args) == 1 and not kwargs and isinstance(args[0], type | types.FunctionType):
            return args[0]
        return Standin(self._path, self._why)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        try:
            real = self._real()
        except (ImportError, AttributeError):
            real = None
        if isinstance(real, type):
            return (real,)
        if any(isinstance(base, type) and issubclass(base, torch.nn.Module) for base in bases):
            return ()
        return (torch.nn.Module,) if any(word in self._path.split(".")[-1] for word in LAYERS) else (_Anything,)

    def __getitem__(self, item: Any) -> "Standin":
        return self

    def __or__(self, other: Any) -> "Standin":
        return self

    __ror__ = __or__

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __subclasscheck__(self, cls: type) -> bool:
        return False

    def __bool__(self) -> bool:
        return not self._why

    def __repr__(self) -> str:
        return f"<{self._path}, not loaded>"

    def _used(self, *_: Any) -> Any:
        """A number, a sequence or a context is asked of it."""
        real = self._real()
        raise ImportError(f"{self._path} is {type(real).__name__}", name=self._path.split(".")[0])

    __index__ = __int__ = __float__ = __len__ = __iter__ = __enter__ = _used
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _used
    __floordiv__ = __mod__ = __pow__ = __neg__ = __lt__ = __gt__ = __le__ = __ge__ = __matmul__ = _used

    def __exit__(self, *_: Any) -> None:
        return None


class _Anything:
    """The base of a class whose own base is absent."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


class OnCpu(TorchFunctionMode):
    """Runs on the CPU what asks for cuda or mps: the numbers are the same, and the card may be absent."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.Tensor.cuda, torch.Tensor.xpu):
            return args[0]
        if func is torch.Tensor.pin_memory:
            return args[0]
        return func(*map(_cpu, args), **{name: _cpu(value) for name, value in kwargs.items()})


def _cpu(value: Any) -> Any:
    if isinstance(value, torch.device):
        return value if value.type in ("cpu", "meta") else torch.device("cpu")
    if type(value) is str and value.split(":")[0] in ("cuda", "mps", "xpu"):
        return "cpu"
    return value


def _nothing() -> Callable[..., None]:
    """A function of its own each time: torch's compiler keeps a list of torch's functions and wants no two the same."""
    return lambda *_, **__: None


def forget_the_card() -> None:
    """For the rest of this process: what synchronises, empties or asks the graphics card does nothing."""
    for name in "synchronize empty_cache manual_seed manual_seed_all set_device reset_peak_memory_stats".split():
        setattr(torch.cuda, name, _nothing())
    for place in (torch.cuda, torch.backends.mps):
        setattr(place, "is_available", lambda: False)  # noqa: B010  (a plain assignment would not type-check)
    for name in ("FloatTensor", "HalfTensor", "DoubleTensor", "LongTensor", "IntTensor", "BoolTensor", "ByteTensor"):
        setattr(torch.cuda, name, getattr(torch, name))
