"""Alternatives to attention: retention, Mamba-2, the gated delta rule. Tensors in, tensors out.

Read in this order: `reference`, `stepwise`, `forms`, `calls`, `dispatch`, `mixer_maps`, `state_cache`, `convolution`,
`retention`, `mamba2`, `delta`, `hf_weights`.

Each mixer is y = A·V with a lower triangular A computed from q, k and decays, so its map can be shown as attention's. Each
is also a recurrence, so the cost of a new token doesn't grow with the text. The names below are imported at first use;
`reference` and `stepwise` don't need torch.

>>> import torch
>>> from qkv.mixers import mix
>>> one = torch.ones(1, 1, 3, 1)
>>> mix(one, one, one, torch.tensor([0.5]).log())[0].flatten().tolist()
[1.0, 1.5, 1.75]
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from . import reference as reference
    from .calls import Mixing as Mixing
    from .convolution import CausalConvolution as CausalConvolution
    from .delta import GatedDelta as GatedDelta
    from .dispatch import explain as explain
    from .dispatch import mix as mix
    from .mamba2 import Mamba2 as Mamba2
    from .mixer_maps import MixerHead as MixerHead
    from .mixer_maps import head_of as head_of
    from .retention import Retention as Retention
    from .state_cache import StateCache as StateCache
    from .stepwise import MixerSteps as MixerSteps
    from .stepwise import mixing as mixing

__getattr__, __dir__, __all__ = lazy(
    __name__,
    reference="reference",
    MixerSteps="stepwise",
    mixing="stepwise",
    Mixing="calls",
    mix="dispatch",
    explain="dispatch",
    MixerHead="mixer_maps",
    head_of="mixer_maps",
    StateCache="state_cache",
    CausalConvolution="convolution",
    Retention="retention",
    Mamba2="mamba2",
    GatedDelta="delta",
)
