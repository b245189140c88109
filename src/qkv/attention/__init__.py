"""Attention itself: tensors in, tensors out. Does not depend on models or text.

Read in this order: `shapes`, `oracle`, `tiles`, `masks`, `mask_algebra`, `rules`, `formula`, `dispatch`, `pieces`,
`pooling`, `positions`, `cache`, `norms`, `heads`, `latent`, `additive`.

The names below are imported at first use, so `steps` and `masks` work without torch.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from . import masks as masks
    from .additive import AdditiveAttention as AdditiveAttention
    from .cache import KVCache as KVCache
    from .cache import WindowCache as WindowCache
    from .dispatch import attend as attend
    from .dispatch import explain as explain
    from .dispatch import record as record
    from .dispatch import replace_weights as replace_weights
    from .formula import Call as Call
    from .heads import MultiHeadAttention as MultiHeadAttention
    from .heads import SelfAttention as SelfAttention
    from .latent import LatentAttention as LatentAttention
    from .oracle import Steps as Steps
    from .oracle import from_qkv as from_qkv
    from .oracle import steps as steps
    from .positions import ALiBi as ALiBi
    from .positions import Learned as Learned
    from .positions import Relative as Relative
    from .positions import Rotary as Rotary
    from .positions import Sinusoidal as Sinusoidal
    from .tiles import Tiles as Tiles

__getattr__, __dir__, __all__ = lazy(
    __name__,
    steps="oracle",
    Steps="oracle",
    from_qkv="oracle",
    masks="masks",
    Call="formula",
    Tiles="tiles",
    attend="dispatch",
    explain="dispatch",
    record="dispatch",
    replace_weights="dispatch",
    Sinusoidal="positions",
    Learned="positions",
    Rotary="positions",
    ALiBi="positions",
    Relative="positions",
    KVCache="cache",
    WindowCache="cache",
    SelfAttention="heads",
    MultiHeadAttention="heads",
    LatentAttention="latent",
    AdditiveAttention="additive",
)
