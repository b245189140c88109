"""The Transformer: config, layers, model, generation. Read in that order.

>>> import qkv
>>> from importlib.resources import files
>>> model, tokenizer = qkv.load(str(files("qkv") / "demo" / "dates"))
>>> model.config.kind, tokenizer.vocab
('encoder-decoder', 96)
>>> from qkv.model.generation import translate
>>> translate(model, tokenizer, "15 Nov 2026")
['1900-03-01', '077-05-05', '0600-06-00', '2070-02-02', '5770-06-05', '2020-07-00', '0600-06-00', '2072-02-02', '2000-07-00', '2072-02-02', '0766-06-06']
"""

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
