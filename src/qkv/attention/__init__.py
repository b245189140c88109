"""The mechanism: attention itself. Tensors in, tensors out; knows nothing of models or text.

Read in this order: steps, tiles, masks, formula, attend, positions, cache, heads, latent, additive.
The names below are loaded when first used, so that `steps` and `masks` work without importing torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .additive import AdditiveAttention
    from .attend import explain, record, replace_weights
    from .cache import KVCache, WindowCache
    from .formula import Call
    from .heads import MultiHeadAttention, SelfAttention
    from .latent import LatentAttention
    from .positions import ALiBi, Learned, Relative, Rotary, Sinusoidal
    from .steps import Steps, from_qkv
    from .tiles import Tiles

_HOME = {
    "Steps": "steps",
    "from_qkv": "steps",
    "Tiles": "tiles",
    "Call": "formula",
    "explain": "attend",
    "record": "attend",
    "replace_weights": "attend",
    "Sinusoidal": "positions",
    "Learned": "positions",
    "Rotary": "positions",
    "ALiBi": "positions",
    "Relative": "positions",
    "KVCache": "cache",
    "WindowCache": "cache",
    "SelfAttention": "heads",
    "MultiHeadAttention": "heads",
    "LatentAttention": "latent",
    "AdditiveAttention": "additive",
}

__all__ = [
    "ALiBi",
    "AdditiveAttention",
    "Call",
    "KVCache",
    "LatentAttention",
    "Learned",
    "MultiHeadAttention",
    "Relative",
    "Rotary",
    "SelfAttention",
    "Sinusoidal",
    "Steps",
    "Tiles",
    "WindowCache",
    "explain",
    "from_qkv",
    "record",
    "replace_weights",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"qkv.attention has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"qkv.attention.{_HOME[name]}"), name)
