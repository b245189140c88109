"""Generation with a trained model: continue a prompt, fill in masked words, translate.

Read in this order: `prefill`, `decode_step`, `sampling`, `token_constraints`, `decoding`, `beam_search`, `batching`.

>>> import qkv
>>> from importlib.resources import files
>>> from qkv.generation import translate
>>> model, tokenizer = qkv.load(str(files("qkv") / "demo" / "dates"))
>>> translate(model, tokenizer, "15 Nov 2026")
['1900-03-01', '077-05-05', '0600-06-00', '2070-02-02', '5770-06-05', '2020-07-00', '0600-06-00', '2072-02-02', '2000-07-00', '2072-02-02', '0766-06-06']
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .decoding import complete as complete
    from .decoding import fill as fill
    from .decoding import generate as generate
    from .decoding import stream as stream
    from .decoding import translate as translate

__getattr__, __dir__, __all__ = lazy(
    __name__, generate="decoding", stream="decoding", complete="decoding", translate="decoding", fill="decoding"
)
