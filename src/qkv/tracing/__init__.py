"""Trace attention: a trace stores q, k and v of each layer, never the n×n matrix, and computes maps on demand.

Read in this order: `record` (make a trace), `views` (maps, labels, files), `study` (what heads do).

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
    from .record.recorder import trace as trace
    from .study.ablation import importance as importance
    from .study.edits import edit as edit
    from .study.effects import without as without
    from .study.induction import induction_test as induction_test
    from .views.traces import Trace as Trace

__getattr__, __dir__, __all__ = lazy(
    __name__,
    Trace="views.traces",
    trace="record.recorder",
    edit="study.edits",
    without="study.effects",
    importance="study.ablation",
    induction_test="study.induction",
)
