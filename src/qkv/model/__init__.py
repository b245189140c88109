"""The Transformer and its configuration.

Read in this order: `words`, `config`, `mixture`, `config_checks`, `presets`, `layers`, `experts`, `transformer`,
`thin_matmul`, `word_loss`, `describe`.

>>> import torch
>>> from qkv.model import Config, Transformer
>>> model = Transformer(Config(vocab=10, width=16, n_layer=1, n_head=2))
>>> tuple(model(torch.tensor([[1, 2, 3]])).shape)
(1, 3, 10)
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .config import Config as Config
    from .transformer import Transformer as Transformer

__getattr__, __dir__, __all__ = lazy(
    __name__,
    Config="config",
    Transformer="transformer",
)
