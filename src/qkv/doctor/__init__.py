"""The doctor: points at attention somebody wrote and names the mistake in it.

    from qkv import assert_correct, check
    print(check(MyAttention(64, 8), heads=8))

Loaded when first used, so that the command line can start without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .doctor import check
    from .plugin import assert_correct
    from .report import Finding, Remark, Report

_HOME = {
    "check": "doctor",
    "assert_correct": "plugin",
    "Report": "report",
    "Finding": "report",
    "Remark": "report",
}

__all__ = ["Finding", "Remark", "Report", "assert_correct", "check"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"qkv.doctor has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"qkv.doctor.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
