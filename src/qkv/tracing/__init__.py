"""Looking into attention: what was recorded, kept as q, k and v, never as the n×n matrix.

>>> import torch
>>> import qkv
>>> from qkv.text import Characters
>>> from qkv.tracing import importance, induction_test, without
>>> _ = torch.manual_seed(0)
>>> tokenizer = Characters.make("abcdefgh ")
>>> model = qkv.Transformer(qkv.Config(vocab=tokenizer.vocab, width=32, n_layer=2, n_head=4))
>>> effect = without(model, tokenizer, "a bad cab", "1.3", most=2)
>>> effect.heads, 0 < effect.moved < 0.1
(('1.3',), True)
>>> len(importance(model, ["a bad cab"], tokenizer))
8
>>> induction_test(model, vocab=8, batch=1).scores.shape
(2, 4)
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .ablation import importance as importance
    from .edits import edit as edit
    from .effects import without as without
    from .induction import induction_test as induction_test
    from .recorder import trace as trace
    from .traces import Trace as Trace

__getattr__, __dir__, __all__ = lazy(
    __name__,
    Trace="traces",
    trace="recorder",
    edit="edits",
    without="effects",
    importance="ablation",
    induction_test="induction",
)
