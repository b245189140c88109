"""The Transformer: config, layers, model, generation. Read in that order."""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .config import Config as Config
    from .transformer import Transformer as Transformer
    from .weights import load as load

__getattr__, __dir__, __all__ = lazy(
    __name__,
    Config="config",
    Transformer="transformer",
    load="weights",
)
