"""The Transformer: encoder, decoder or both, from one `Config` and the same blocks.

B batch, N tokens, M source tokens, C model width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..attention import masks
from ..attention.cache import Cache, KVCache, WindowCache
from ..attention.dispatch import MaskLike
from ..attention.latent import LatentAttention
from ..attention.positions import ALiBi, Learned, Positions, Relative, Rotary, Sinusoidal
from ..i18n import Problem, _
from ..mixers.state_cache import StateCache
from ..process.memory import require
from .config import Config
from .layers import HEADS, NORMS, Block, StateMixer
from .word_loss import word_loss

LayerCache = Cache | StateCache


class ModelCache:
    """The caches of all layers, and those of cross-attention for the memory."""

    def __init__(self, layers: list[Any], memory: Sequence[LayerCache]) -> None:
        self.layers, self.memory = layers, memory

    def expect(self, counts: Any) -> None:
        """Set the number of real tokens per item in the next call. The rest of a row is padding."""
        for cache in self.layers:
            cache.expect(counts)

    def at(self, n: int) -> Positions:
        """Return the positions of n new tokens."""
        return self.layers[0].at(n)

    def reorder(self, index: Tensor) -> None:
        """Let item i continue the text of item index[i] (beam search)."""
        for cache in (*self.layers, *self.memory):
            cache.reorder(index)

    def reset(self) -> None:
        """Empty the caches without freeing their memory."""
        for cache in (*self.layers, *self.memory):
            cache.reset()


class Transformer(nn.Module):
    """A Transformer: tokens to logits over the vocabulary.

    >>> model = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4))
    >>> model(torch.randint(50, (2, 7))).shape
    torch.Size([2, 7, 50])
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.base = "?"  # the source of the weights, if adapters are trained beside them
        self.layout = ""  # transformers' name for their layout
        self.embedding = nn.Embedding(config.vocab, config.embedding.width or config.width)
        narrow = config.embedding.width
        self.widen = None if narrow is None else nn.Linear(narrow, config.width, bias=False)
        source_vocab = config.source_vocab  # the encoder's
        self.source_embedding = None if source_vocab is None else nn.Embedding(source_vocab, config.width)
        self.position = self._additive_position()
        self.types = nn.Embedding(config.embedding.token_types, config.width) if config.embedding.token_types else None
        self.embedding_norm = self._norm() if config.embedding.norm else None
        has_own_sides = config.embedding.sides == "own"  # then the position and norm above are the encoder's
        self.decoder_position = self._additive_position() if has_own_sides and config.position == "learned" else None
        self.decoder_embedding_norm = self._norm() if has_own_sides and config.embedding.norm else None
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = self._stack("encoder") if config.kind != "decoder" else None
        self.decoder = self._stack("decoder") if config.kind != "encoder" else None
        pre = config.norm_place != "post"  # post-norm blocks end in a norm already
        self.encoder_norm = self._norm() if pre and self.encoder is not None else None
        self.decoder_norm = self._norm() if pre and self.decoder is not None else None
        self.pooler = nn.Linear(config.width, config.width) if config.output.pooler else None
        self.head: Any = HEADS[config.output.head](config)
        self.initialise()
        self.tie()

    def tie(self) -> None:
        """Share the embedding's matrix with the head, if the config has it tied.

        >>> model = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4, tied=True))
        >>> model.head.weight is model.embedding.weight
        True
        """
        if self.config.embedding.tied and self.config.predicts_words:
            self.head.weight = self.embedding.weight

    def _additive_position(self) -> nn.Module | None:
        """Return a layer of positions that are added to word vectors, if any."""
        config = self.config
        if config.position == "learned":
            return Learned(config.context, config.width)
        return Sinusoidal(config.width, halves=config.sinusoid == "halves") if config.position == "sinusoidal" else None

    def _norm(self) -> nn.Module:
        return NORMS[self.config.norm](self.config.width, self.config.norm_eps)

    def _stack(self, side: str) -> nn.ModuleList:
        config, decoder = self.config, side == "decoder"
        head_width = config.head_width or config.width // config.n_head
        position: nn.Module | None = None  # shared by all layers of a side, or by those without a window
        if config.position == "rotary" and "attention" in config.mixers:
            position = Rotary(
                head_width, config.rotary.base, scaling=config.rotary.scaling, fraction=config.rotary.fraction
            )
        elif config.position == "alibi":
            position = ALiBi(config.n_head)
        elif config.position == "relative":
            position = Relative(config.n_head, config.relative.buckets, config.relative.distance, not decoder)
        windowed_position = position
        if isinstance(position, Rotary) and config.rotary.window_base is not None:
            windowed_position = Rotary(head_width, config.rotary.window_base, fraction=config.rotary.fraction)
        cross = decoder and config.kind == "encoder-decoder"
        windows = config.windows[: config.layers[decoder]]
        return nn.ModuleList(
            Block(config, f"{side}.{i}", position if window is None else windowed_position, causal=decoder, cross=cross)
            for i, window in enumerate(windows)
        )

    def forward(
        self,
        ids: Tensor,
        source: Tensor | None = None,
        *,
        mask: MaskLike = None,
        source_mask: MaskLike = None,
        types: Tensor | None = None,
        at: Tensor | None = None,
        source_at: Tensor | None = None,
        cache: ModelCache | None = None,
        labels: Tensor | None = None,
    ) -> Tensor:
        """Return logits (B, N, V) of ids (B, N). An encoder-decoder also reads `source` (B, M).

        `mask` and `source_mask` mark real tokens: `masks.padding(...)`, or True/False per token (B, N). A decoder is
        always causal. `types` (B, N) are an encoder's token types, default 0. `at` and `source_at` (B, N) are the
        positions of tokens, which a left-padded batch needs, default 0, 1, 2, …
        head="none" returns states (B, N, C) instead of logits, head="classes" a logit per label (B, L).
        With `labels` (B, N), return the sum of −log p over the labels, without holding all logits. −100 isn't counted.
        """
        if self.decoder is None:
            states = self.encode(ids, mask, types, at=at)
            states = self.dropout(self.pool(states)) if self.config.output.head == "classes" else states
            return self.head(states) if labels is None else word_loss(self.head, states, labels)
        if types is not None:
            raise Problem("types are given but only an encoder has token types: leave them out")
        memory = None
        if self.encoder is not None:
            if source is None:
                raise Problem("this model is an encoder-decoder: give the source tokens too, model(target, source)")
            memory = self.encode(source, source_mask, at=source_at)
        states = self.decode(ids, memory, mask=mask, memory_mask=source_mask, at=at, cache=cache)
        return self.head(states) if labels is None else word_loss(self.head, states, labels)

    if TYPE_CHECKING:
        __call__ = forward

    def encode(
        self, ids: Tensor, mask: MaskLike = None, types: Tensor | None = None, *, at: Tensor | None = None
    ) -> Tensor:
        """Return the encoder's states (B, N, C).

        >>> model = Transformer(Config(kind="encoder", vocab=50, width=32, n_layer=2, n_head=4))
        >>> model.encode(torch.tensor([[3, 1, 4]])).shape
        torch.Size([1, 3, 32])
        """
        assert self.encoder is not None, "a decoder has no encoder"
        x = self._embed(ids, 0 if at is None else at, types)
        rule = key_mask(mask)
        for block in self.encoder:
            x = block(x, rule, at=at)
        return x if self.encoder_norm is None else self.encoder_norm(x)

    def pool(self, states: Tensor) -> Tensor:
        """Return the pooler's summary (B, C) of texts from the first token of their states (B, N, C).

        >>> model = Transformer(Config(kind="encoder", vocab=50, width=32, n_layer=2, n_head=4, head="none", pooler=True))
        >>> model.pool(model(torch.tensor([[3, 1, 4]]))).shape
        torch.Size([1, 32])
        """
        if self.pooler is None:
            raise Problem("this model has no pooler: average its states over the real tokens, or set pooler=True")
        return torch.tanh(self.pooler(states[:, 0]))

    def decode(
        self,
        ids: Tensor,
        memory: Tensor | None = None,
        *,
        mask: MaskLike = None,
        memory_mask: MaskLike = None,
        at: Tensor | None = None,
        cache: ModelCache | None = None,
    ) -> Tensor:
        """Return the decoder's states (B, N, C). With a cache, ids are only the new tokens.

        >>> model = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)).eval()
        >>> ids, cache = torch.tensor([[3, 1, 4]]), model.new_cache(batch=1, capacity=3)
        >>> whole = model.decode(ids)
        >>> steps = [model.decode(ids[:, i : i + 1], cache=cache) for i in range(3)]
        >>> whole.shape, bool(torch.allclose(torch.cat(steps, 1), whole, atol=1e-6))
        (torch.Size([1, 3, 32]), True)
        """
        assert self.decoder is not None, "an encoder has no decoder"
        x = self.embed_target(ids, at if at is not None else 0 if cache is None else cache.at(ids.shape[1]))
        rule, memory_rule = masks.causal() & key_mask(mask), key_mask(memory_mask)
        for i, block in enumerate(self.decoder):
            self_cache = None if cache is None else cache.layers[i]
            memory_cache = None if cache is None or memory is None else cache.memory[i]
            x = block(x, rule, memory, memory_rule, self_cache, memory_cache, at)
        return x if self.decoder_norm is None else self.decoder_norm(x)

    def embed_target(self, ids: Tensor, at: Positions) -> Tensor:
        """Return the decoder's input (B, N, C) for ids (B, N).

        >>> model = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4))
        >>> model.embed_target(torch.tensor([[3, 1, 4]]), at=0).shape
        torch.Size([1, 3, 32])
        """
        position = self.position if self.decoder_position is None else self.decoder_position
        norm = self.embedding_norm if self.decoder_embedding_norm is None else self.decoder_embedding_norm
        x = self._words(ids)
        if position is not None:
            x = position(x, at)
        return self.dropout(x if norm is None else norm(x))

    def _embed(self, ids: Tensor, at: Positions, types: Tensor | None = None) -> Tensor:
        x = self._words(ids, self.source_embedding)
        if self.position is not None:
            x = self.position(x, at)
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        elif types is not None:
            raise Problem("types are given but this model has token_types=0: leave them out, or set token_types")
        return self.dropout(x if self.embedding_norm is None else self.embedding_norm(x))

    def _words(self, ids: Tensor, own: nn.Embedding | None = None) -> Tensor:
        embedding = self.embedding if own is None else own
        if ids.ndim != 2:
            raise Problem("ids are {shape}: give (batch, tokens)", shape=tuple(ids.shape))
        if ids.device.type == "cpu" and ids.numel() and not torch.compiler.is_compiling():
            low, high = (int(end) for end in torch.aminmax(ids))
            if low < 0 or high >= embedding.num_embeddings:
                raise Problem(
                    "ids go from {low} to {high}, but this model knows the tokens 0 to {last}: was the text cut by its own "
                    "tokenizer?",
                    low=low,
                    high=high,
                    last=embedding.num_embeddings - 1,
                )
        x = embedding(ids)  # (B, N, C), or narrower
        x = x if self.widen is None else self.widen(x)
        return x if self.config.embedding.scale == 1.0 else x * self.config.embedding.scale

    def grows(self, length: int, before: int = 0) -> bool:
        """True if rotary angles change when a text grows from one length to another, so that caches become invalid.

        >>> Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)).grows(1000)
        False
        """
        parts = (
            getattr(block.attention, name, None) for block in self.decoder or () for name in ("position", "rotary")
        )
        return any(isinstance(part, Rotary) and part.at_length(before) is not part.at_length(length) for part in parts)

    def generate(self, prompts: Any, **options: Any) -> list[list[int]]:
        """Return the tokens that follow each prompt. Options are those of `qkv.generation.decoding.generate`.

        >>> _ = torch.manual_seed(0)
        >>> model = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4))
        >>> [len(row) for row in model.generate([[1, 2, 3]], most=5)]
        [5]
        """
        from ..generation.decoding import generate

        return generate(self, prompts, **options)

    def new_cache(self, batch: int, capacity: int, *, memory: int = 0, static: bool = False) -> ModelCache:
        """Return a cache for `capacity` tokens per item, and for `memory` source tokens.

        >>> cache = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)).new_cache(batch=1, capacity=10)
        >>> len(cache.layers), cache.layers[0].k.shape
        (2, torch.Size([1, 4, 10, 8]))
        """
        config = self.config
        assert self.decoder is not None, "an encoder needs no cache"
        heads, width = config.n_kv_head or config.n_head, config.head_width or config.width // config.n_head
        options: dict[str, Any] = {"dtype": self.embedding.weight.dtype, "device": self.embedding.weight.device}
        latent = (config.latent.rank or 0) + (config.latent.rope_width or 0)
        capacities = [capacity if window is None else min(capacity, window + 1) for window in config.windows]
        numbers = 0
        for word, tokens in zip(config.mixers[: len(self.decoder)], capacities, strict=False):
            per_word = {"attention": 2 * heads * width * (tokens + memory), "latent": latent * capacity}
            numbers += per_word.get(word, 0)
        size = batch * numbers * options["dtype"].itemsize
        states = [block.attention for block in self.decoder if isinstance(block.attention, StateMixer)]
        size += sum(mixer.new_cache(batch, **options | {"device": "meta"}).numbers for mixer in states) * 4
        require(
            size,
            _(
                "keys and values of {tokens} tokens take {size} and {free} of memory is free: ask for fewer new "
                "tokens (--most), or fewer texts at once"
            ),
            options["device"],
            tokens=f"{batch * (max(capacities) + memory):,}",
        )

        def layer_cache(block: nn.Module, window: int | None) -> LayerCache:
            if isinstance(block.attention, StateMixer):
                return block.attention.new_cache(batch, **options)
            if isinstance(block.attention, LatentAttention):
                return block.attention.new_cache(batch, capacity, static=static, **options)
            if window is not None and window + 1 < capacity:
                return WindowCache(batch, heads, window, width, **options)
            return KVCache(batch, heads, capacity, width, static=static, **options)

        cross = [KVCache(batch, heads, memory, width, **options) for block in self.decoder] if memory else []
        return ModelCache([layer_cache(block, config.windows[i]) for i, block in enumerate(self.decoder)], cross)

    @torch.no_grad()
    def initialise(self) -> None:
        """Initialise the weights: see `Config.init`.

        >>> model = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4, init="zero-out"))
        >>> bool((model.decoder[0].attention.out.weight == 0).all())
        True
        """
        config = self.config
        if config.init == "torch":
            for block in (*(self.encoder or ()), *(self.decoder or ())):
                for parameter in block.parameters():
                    if parameter.ndim == 2:
                        nn.init.xavier_uniform_(parameter)
            nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
            return
        # Residual branches per block.
        outputs = 1 + (config.kind == "encoder-decoder") + (config.feed_forward != "none")
        for name, module in self.named_modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02 if config.embedding.tied or config.init == "normal" else 1.0)
            elif isinstance(module, nn.Linear):
                out = name.endswith((".out", ".down"))
                if config.init == "zero-out":
                    nn.init.zeros_(module.weight) if out or name == "head" else nn.init.uniform_(
                        module.weight, -((3 / config.width) ** 0.5), (3 / config.width) ** 0.5
                    )
                else:
                    nn.init.normal_(module.weight, std=0.02 / math.sqrt(outputs * max(config.layers)) if out else 0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def count(self) -> int:
        """Return the number of parameters. A tied head counts once.

        >>> Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)).count()
        26848
        """
        return sum(parameter.numel() for parameter in self.parameters())

    def describe(self, lang: str | None = None) -> str:
        """Return a table of parts, parameters, memory and FLOPs per token.

        >>> print(Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)).describe("en").splitlines()[0])
        decoder, 2 layers, width 32, 4 heads, vocabulary 50
        """
        from .describe import describe

        return describe(self, lang)


def key_mask(mask: MaskLike) -> masks.Mask:
    """Return a mask over keys from a mask of real tokens."""
    if isinstance(mask, Tensor):
        return masks.padding(mask)
    return masks.full() if mask is None else mask
