"""What stands between the attentions: norms, heads, and the block that ties them together.

B batch, N tokens, M memory tokens, C model width, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from ..attention.cache import Cache
from ..attention.heads import MultiHeadAttention
from ..attention.latent import LatentAttention
from ..attention.masks import Mask
from ..attention.norms import CentredRMSNorm, RMSNorm
from ..attention.positions import Positions
from ..mixers.delta import GatedDelta
from ..mixers.mamba2 import Mamba2
from ..mixers.retention import Retention
from .config import STATES, Config
from .experts import MixtureOfExperts
from .feed_forward import ACTIVATIONS, FeedForward

StateMixer = Retention | Mamba2 | GatedDelta  # what keeps a state of one size instead of all keys and values


NORMS: dict[str, Callable[[int, float], nn.Module]] = {
    "rms": lambda width, eps: RMSNorm(width, eps),
    "rms-centred": lambda width, eps: CentredRMSNorm(width, eps),
    "layer": lambda width, eps: nn.LayerNorm(width, eps=eps),
}


class Block(nn.Module):
    """Look at each other, (look at the memory,) (think): each with a residual around it and a norm before or after."""

    def __init__(self, config: Config, name: str, position: nn.Module | None, *, causal: bool, cross: bool) -> None:
        super().__init__()

        def norm() -> nn.Module:
            return NORMS[config.norm](config.width, config.norm_eps)

        def attention(part: str, position: nn.Module | None, window: Any = None) -> nn.Module:
            made = MultiHeadAttention(
                config.width,
                config.n_head,
                config.n_kv_head,
                config.head_width,
                bias=config.bias,
                position=position,
                qk_norm=config.qk_norm,
                gate=config.attention_gate,
                window=window,
                dropout=config.dropout,
                scale=config.attention_scale,
                name=part,
            )
            for qk_norm in (made.q_norm, made.k_norm):
                if isinstance(qk_norm, RMSNorm | nn.LayerNorm):
                    qk_norm.eps = config.norm_eps  # one eps for all norms of a model, as Qwen3 has it
            return made

        self.pre = config.norm_place == "pre"
        window = None if config.window is None else (config.window, 0 if causal else config.window)
        mixer = config.mixers[int(name.split(".")[1])]
        if mixer == "attention":
            self.attention: nn.Module = attention(name, position, window)
        else:
            self.attention = latent(config, name) if mixer == "latent" else state_mixer(mixer, config, name)
        self.attention_norm = norm()
        self.cross = attention(name.replace("decoder", "cross"), None) if cross else None
        self.cross_norm = norm() if cross else None
        thinks = config.feed_forward != "none"
        self.feed_forward: nn.Module | None = thinker(config, name) if thinks else None
        self.feed_forward_norm = norm() if thinks else None
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
        """x (B, N, C), which may look at itself where `mask` allows and at memory (B, M, C) where `memory_mask` does."""
        x = self._around(x, self.attention_norm, lambda h: self.attention(h, mask=mask, cache=cache, at=at))
        if self.cross is not None:
            look = self.cross
            x = self._around(x, self.cross_norm, lambda h: look(h, memory, memory_mask, cache=memory_cache))
        return x if self.feed_forward is None else self._around(x, self.feed_forward_norm, self.feed_forward)

    def _around(self, x: Tensor, norm: Any, sublayer: Any) -> Tensor:
        if self.pre:
            return x + self.dropout(sublayer(norm(x)))
        return norm(x + self.dropout(sublayer(x)))


class ScaledHead(nn.Linear):
    """The vocabulary matrix on states that are made smaller first, as T5 does it where the matrix is the embedding's."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.width, config.vocab, bias=config.head_bias)
        self.scale = config.output_scale

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, C) → (B, N, V)."""
        return super().forward(x * self.scale)


class MaskedHead(nn.Linear):
    """The head that BERT publishes: a dense layer, its activation and a norm, then the vocabulary with a bias."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.width, config.vocab)
        self.dense = nn.Linear(config.width, config.width)
        self.activation = ACTIVATIONS[config.feed_forward]
        self.norm = NORMS[config.norm](config.width, config.norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, C) → (B, N, V)."""
        return super().forward(self.norm(self.activation(self.dense(x))))


def linear_head(config: Config) -> nn.Linear:
    """The vocabulary matrix: a logit per word, how well the state fits the word's vector."""
    if config.output_scale != 1.0:
        return ScaledHead(config)
    return nn.Linear(config.width, config.vocab, bias=config.head_bias)


HEADS: dict[str, Callable[[Config], nn.Module]] = {
    "linear": linear_head,
    "mlm": MaskedHead,
    "none": lambda config: nn.Identity(),  # the states themselves
}


def thinker(config: Config, name: str) -> nn.Module:
    """One feed-forward, or many of which each token takes a few."""
    dense = config.thinkers[int(name.split(".")[1])] == "dense"
    return FeedForward(config) if dense else MixtureOfExperts(config, name)


def state_mixer(word: str, config: Config, name: str) -> StateMixer:
    """Retention, Mamba-2 or the gated delta rule with sizes from the config."""
    assert word in STATES
    width, bias = config.width, config.bias is True
    heads, values, groups, keys = config.state_sizes(word)
    common: dict[str, Any] = dict(eps=config.norm_eps, name=name)
    if word == "retention":
        return Retention(width, heads, keys, values, bias=bias, base=config.rotary_base, **common)
    if word == "mamba2":
        return Mamba2(width, heads, values, key_width=keys, groups=groups, taps=config.taps, bias=bias, **common)
    return GatedDelta(width, heads, groups, values, keys, taps=config.taps, **common)


def latent(config: Config, name: str) -> LatentAttention:
    """MLA with sizes from the config; where they aren't given, a quarter of the width as DeepSeek roughly has it."""
    head_width = config.head_width or config.width // config.n_head
    return LatentAttention(
        config.width,
        config.n_head,
        rank=config.rank or max(config.width // 4, 8),
        head_width=head_width,
        rope_width=config.rope_width or max(head_width // 2 // 2 * 2, 2),
        bias=config.bias is True,
        base=config.rotary_base,
        scaling=config.rotary_scaling,
        dropout=config.dropout,
        name=name,
    )
