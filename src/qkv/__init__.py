"""qkv: from softmax(QKᵀ/√d)V to a trained Transformer one can look into.

What is named here is what is promised; everything is loaded when first used, so `import qkv` costs nothing.

>>> import qkv
>>> print(qkv.steps([[1.0, 0.0], [0.0, 1.0]]).weights.round(3))
[[0.67 0.33]
 [0.33 0.67]]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .attention import masks
    from .attention.attend import attend, record
    from .attention.heads import MultiHeadAttention, SelfAttention
    from .attention.steps import steps
    from .doctor.doctor import check
    from .doctor.plugin import assert_correct
    from .draw.plots import heatmap
    from .model.config import Config
    from .model.transformer import Transformer
    from .model.weights import load
    from .tracing.edit import edit
    from .tracing.recorder import trace

_HOME = {
    "attend": "attention.attend",
    "record": "attention.attend",
    "masks": "attention",
    "steps": "attention.steps",
    "SelfAttention": "attention.heads",
    "MultiHeadAttention": "attention.heads",
    "check": "doctor.doctor",
    "assert_correct": "doctor.plugin",
    "heatmap": "draw.plots",
    "Config": "model.config",
    "Transformer": "model.transformer",
    "load": "model.weights",
    "trace": "tracing.recorder",
    "edit": "tracing.edit",
}

__all__ = [
    "Config",
    "MultiHeadAttention",
    "SelfAttention",
    "Transformer",
    "assert_correct",
    "attend",
    "check",
    "edit",
    "heatmap",
    "load",
    "masks",
    "record",
    "steps",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"qkv has no {name!r}; it has {', '.join(__all__)}")
    if name == "masks":
        return import_module("qkv.attention.masks")
    return getattr(import_module(f"qkv.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
