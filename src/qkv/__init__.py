"""qkv: from softmax(QKᵀ/√d)V to a trained Transformer that you can look into.

The names below are the public API. They are loaded at first use, so `import qkv` is fast.

Read in this order: `attention`, `mixers`, `model`, `text`, `generation`, `formats`, `evaluation`, `library`, `train`,
`tracing`, `draw`, `web`, `doctor`, `sandbox`, `lessons`, `lab`, `studio`, `commands`, `terminal`, `disk`, `process`; then
the modules `cli`, `i18n`, `watching`, `lazy`, `moved`.

>>> import qkv
>>> print(qkv.steps([[1.0, 0.0], [0.0, 1.0]]).weights.round(3))
[[0.67 0.33]
 [0.33 0.67]]

>>> import torch
>>> def attention(q, k, v):
...     return torch.softmax(q @ k.transpose(-2, -1), -1) @ v
>>> report = qkv.check(attention)
>>> report.verdict, str(report.findings[0].evidence)[:26]
('wrong', 'your scores are not scaled')
>>> def attention(q, k, v):
...     return torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1) @ v
>>> qkv.assert_correct(attention)
"""

from typing import TYPE_CHECKING

from .lazy import lazy
from .moved import install as _install_old_names

__version__ = "0.1.0"
_install_old_names()

if TYPE_CHECKING:
    from .attention import masks as masks
    from .attention.dispatch import attend as attend
    from .attention.dispatch import record as record
    from .attention.heads import MultiHeadAttention as MultiHeadAttention
    from .attention.heads import SelfAttention as SelfAttention
    from .attention.oracle import steps as steps
    from .doctor.doctor import check as check
    from .doctor.plugin import assert_correct as assert_correct
    from .draw.plots import heatmap as heatmap
    from .formats.model_files import load as load
    from .model.config import Config as Config
    from .model.transformer import Transformer as Transformer
    from .tracing.record.recorder import trace as trace
    from .tracing.study.edits import edit as edit

__getattr__, __dir__, __all__ = lazy(
    __name__,
    attend="attention.dispatch",
    record="attention.dispatch",
    masks="attention.masks",
    steps="attention.oracle",
    SelfAttention="attention.heads",
    MultiHeadAttention="attention.heads",
    check="doctor.doctor",
    assert_correct="doctor.plugin",
    heatmap="draw.plots",
    Config="model.config",
    Transformer="model.transformer",
    load="formats.model_files",
    trace="tracing.record.recorder",
    edit="tracing.study.edits",
)
