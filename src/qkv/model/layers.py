"""The layers of a Transformer: feed-forward, block and heads.

B batch, N tokens, M memory tokens, C model width, V vocabulary.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention.cache import Cache
from ..attention.heads import NORMS, MultiHeadAttention
from ..attention.latent import LatentAttention
from ..attention.masks import Mask
from ..attention.norms import RMSNorm
from ..attention.positions import Positions
from ..mixers.delta import GatedDelta
from ..mixers.mamba2 import Mamba2
from ..mixers.retention import Retention
from .config import Config
from .config_checks import STATES

Layer = Callable[[Tensor], Tensor]
StateMixer = Retention | Mamba2 | GatedDelta  # mixers with a state of fixed size


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU's approximation by tanh. Compiled as x·σ(2u), which is equal and takes a third of the time."""
    if torch.compiler.is_compiling():
        return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": gelu_tanh,
    "silu": F.silu,
    "relu2": lambda x: F.relu(x).square(),
    "swiglu": F.silu,
    "geglu": F.gelu,
    "geglu-tanh": gelu_tanh,
}


class FeedForward(nn.Module):
    """A wider layer and back, for each token. Gated ones multiply two projections."""

    def __init__(self, config: Config, hidden: int | None = None) -> None:
        super().__init__()
        bias, hidden = "forward" in config.biased, hidden or config.hidden_width
        self.activation = ACTIVATIONS[config.feed_forward]
        self.up = nn.Linear(config.width, hidden, bias=bias)
        self.gate = nn.Linear(config.width, hidden, bias=bias) if config.gated else None
        self.down = nn.Linear(hidden, config.width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, C) → (B, N, C)."""
        if self.gate is None:
            return self.down(self.activation(self.up(x)))
        gate, up = self.activation(self.gate(x)), self.up(x)
        # In place without a graph: allocating memory costs more than the product.
        return self.down(gate * up if torch.is_grad_enabled() else gate.mul_(up))


class Block(nn.Module):
    """Attention, optional cross-attention and feed-forward, each with a residual and a norm before or after."""

    def __init__(self, config: Config, name: str, position: nn.Module | None, *, causal: bool, cross: bool) -> None:
        super().__init__()

        def norm() -> nn.Module:
            return NORMS[config.norm](config.width, config.norm_eps)

        # The biases of attention.
        bias_settings: dict[str, bool | Literal["qkv", "out"]] = {"qkv": "qkv", "out": "out", "qkv out": True}
        bias = bias_settings.get(" ".join(part for part in ("qkv", "out") if part in config.biased), False)

        number = int(name.split(".")[1])
        scale = config.attention_scale
        if config.depth_scale:
            width = config.head_width or config.width // config.n_head
            scale = (width**-0.5 if scale is None else scale) / (number + 1)

        def attention(part: str, position: nn.Module | None, window: int | tuple[int, int] | None = None) -> nn.Module:
            layer = MultiHeadAttention(
                config.width,
                config.n_head,
                config.n_kv_head,
                config.head_width,
                bias=bias,
                position=position,
                qk_norm=config.qk_norm,
                gate=config.attention_gate,
                window=window,
                dropout=config.dropout,
                scale=scale,
                softcap=config.softcap,
                name=part,
            )
            for qk_norm in (layer.q_norm, layer.k_norm):
                if isinstance(qk_norm, RMSNorm | nn.LayerNorm):
                    qk_norm.eps = config.norm_eps  # one eps for all norms of a model, as Qwen3 has it
            return layer

        self.pre, self.parallel = config.norm_place != "post", config.parallel
        reach, mixer = config.windows[number], config.mixers[number]
        window = None if reach is None else (reach, 0 if causal else reach)
        has_after_norms = config.norm_place == "both"
        if mixer == "attention":
            self.attention: nn.Module = attention(name, position, window)
        else:
            self.attention = latent_attention(config, name) if mixer == "latent" else state_mixer(mixer, config, name)
        self.attention_norm = norm()
        self.attention_after_norm = norm() if has_after_norms else None
        self.cross = attention(name.replace("decoder", "cross"), None) if cross else None
        self.cross_norm = norm() if cross else None
        self.cross_after_norm = norm() if cross and has_after_norms else None
        has_feed_forward = config.feed_forward != "none"
        self.feed_forward: nn.Module | None = make_feed_forward(config, name) if has_feed_forward else None
        self.feed_forward_norm = norm() if has_feed_forward else None
        self.feed_forward_after_norm = norm() if has_feed_forward and has_after_norms else None
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        mask: Mask,
        memory: Tensor | None = None,
        memory_mask: Mask | None = None,
        cache: Cache | None = None,
        memory_cache: Cache | None = None,
        at: Positions | None = None,
    ) -> Tensor:
        """x (B, N, C) attends to itself by `mask` and to memory (B, M, C) by `memory_mask`."""

        def attend(h: Tensor) -> Tensor:
            return self.attention(h, mask=mask, cache=cache, at=at)

        if self.parallel and self.feed_forward is not None and self.feed_forward_norm is not None:
            feed_forward = self.dropout(self.feed_forward(self.feed_forward_norm(x)))
            return x + self.dropout(attend(self.attention_norm(x))) + feed_forward
        x = self._around(x, self.attention_norm, attend, self.attention_after_norm)
        if self.cross is not None:
            attend_to_memory = partial(self.cross, memory=memory, mask=memory_mask, cache=memory_cache)
            x = self._around(x, self.cross_norm, attend_to_memory, self.cross_after_norm)
        if self.feed_forward is None:
            return x
        return self._around(x, self.feed_forward_norm, self.feed_forward, self.feed_forward_after_norm)

    def _around(self, x: Tensor, norm: Layer | None, sublayer: Layer, after: Layer | None) -> Tensor:
        assert norm is not None
        if not self.pre:
            return norm(x + self.dropout(sublayer(x)))
        output = sublayer(norm(x))
        return x + self.dropout(output if after is None else after(output))


class ScaledHead(nn.Linear):
    """The vocabulary matrix with scaled states (T5), narrower states (OPT-350M) or capped logits (Gemma 2)."""

    def __init__(self, config: Config) -> None:
        narrow = config.embedding.width
        super().__init__(narrow or config.width, config.vocab, bias=config.output.bias)
        self.narrow = None if narrow is None else nn.Linear(config.width, narrow, bias=False)
        self.scale, self.cap = config.output.scale, config.output.softcap

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, C) → (B, N, V)."""
        x = x if self.narrow is None else self.narrow(x)
        logits = super().forward(x if self.scale == 1.0 else x * self.scale)
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)


class MaskedHead(nn.Linear):
    """BERT's head: a dense layer, its activation and a norm, then the vocabulary matrix with a bias."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.width, config.vocab)
        self.dense = nn.Linear(config.width, config.width)
        self.activation = ACTIVATIONS[config.feed_forward]
        self.norm = NORMS[config.norm](config.width, config.norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, C) → (B, N, V)."""
        return super().forward(self.norm(self.activation(self.dense(x))))


def linear_head(config: Config) -> nn.Linear:
    """Return the head of head="linear": a logit per word."""
    if config.output.scale != 1.0 or config.output.softcap is not None or config.embedding.width is not None:
        return ScaledHead(config)
    return nn.Linear(config.width, config.vocab, bias=config.output.bias)


HEADS: dict[str, Callable[[Config], nn.Module]] = {
    "linear": linear_head,
    "mlm": MaskedHead,
    "classes": lambda config: nn.Linear(config.width, len(config.output.labels)),
    "none": lambda config: nn.Identity(),  # the states themselves
}


def make_feed_forward(config: Config, name: str) -> nn.Module:
    """Return a feed-forward, or a mixture of experts if this layer has one."""
    if config.feed_forwards[int(name.split(".")[1])] == "dense":
        return FeedForward(config)
    from .experts import MixtureOfExperts  # which imports FeedForward

    return MixtureOfExperts(config, name)


def state_mixer(word: str, config: Config, name: str) -> StateMixer:
    """Return a retention, Mamba-2 or gated delta layer with sizes from the config."""
    assert word in STATES
    width, bias = config.width, config.bias is True
    heads, values, groups, keys = config.state_sizes(word)
    eps = config.norm_eps
    if word == "retention":
        return Retention(width, heads, keys, values, bias=bias, base=config.rotary.base, eps=eps, name=name)
    if word == "mamba2":
        return Mamba2(
            width, heads, values, key_width=keys, groups=groups, taps=config.state.taps, bias=bias, eps=eps, name=name
        )
    return GatedDelta(width, heads, groups, values, keys, taps=config.state.taps, eps=eps, name=name)


def latent_attention(config: Config, name: str) -> LatentAttention:
    """Return an MLA layer with sizes from the config. The default rank is width / 4, about as in DeepSeek."""
    head_width = config.head_width or config.width // config.n_head
    return LatentAttention(
        config.width,
        config.n_head,
        rank=config.latent.rank or max(config.width // 4, 8),
        head_width=head_width,
        rope_width=config.latent.rope_width or max(head_width // 2 // 2 * 2, 2),
        value_width=config.latent.value_width,
        q_rank=config.latent.q_rank,
        bias={"qkv", "out"} <= config.biased,
        base=config.rotary.base,
        scaling=config.rotary.scaling,
        scale=config.attention_scale,
        dropout=config.dropout,
        name=name,
    )
