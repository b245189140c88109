"""Models of ours, as looking asks for them (models.py): what their attention receives, what they say, which heads they have.

B batch, N tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..attention import masks
from ..attention.cache import KVCache, WindowCache
from ..attention.dispatch import Call, record
from ..attention.positions import ALiBi, Relative, Rotary
from ..mixers.calls import Mixing
from ..model.generation import translate_ids
from ..model.layers import StateMixer
from ..model.reading import as_rows, note_context, pad, quiet, wordless
from ..words import Problem
from .chunking import chunks, is_long, join_calls
from .models import MOST, Layer, Question, too_long, uneven
from .tokenizers import Rows, ids_of, listed, reader_of
from .tokens import CUT, END, PARTS, Tokens
from .traces import Projection, Trace, Turning


class Ours:
    """A `Transformer` that is looked into."""

    foreseen = True

    def __init__(self, model: Any) -> None:
        self.model, self.config = model, model.config
        self.kind, self.context = model.config.kind, model.config.context

    def heads(self) -> dict[str, dict[int, int]]:
        """Every layer that attends has equally many heads; mixers have their own."""
        sides = {"encoder": self.model.encoder, "decoder": self.model.decoder}
        if self.kind == "encoder-decoder":
            sides["cross"] = self.model.decoder
        heads: dict[str, dict[int, int]] = {part: {} for part in PARTS}
        for part, blocks in sides.items():
            for i, block in enumerate(blocks or ()):
                mixer = part == "decoder" and isinstance(block.attention, StateMixer)
                heads["mixers" if mixer else part][i] = block.attention.n_head
        return {part: layers for part, layers in heads.items() if layers}

    def trace(
        self,
        given: Any,
        tokenizer: Any = None,
        *,
        target: Any = None,
        logits: bool = False,
        name: str = "",
        eager: bool = False,
    ) -> Trace:
        """`eager` is nothing to ours, which can always be heard."""
        rows = as_rows("source", self._rows(given, tokenizer), self.config.vocab)
        longest = max(map(len, rows))
        if self.config.position == "learned" and longest > self.config.context:
            raise too_long(longest, self.config.context)
        beyond = note_context(longest, self.config.context)
        found = _trace(self.model, rows, tokenizer, target, logits, name, given if isinstance(given, str) else "")
        return replace(found, more=found.more | beyond)

    def question(self, given: Any, tokenizer: Any, target: Any = None) -> Question:
        """Rows of different lengths are padded on the right."""
        model = self.model
        device = model.embedding.weight.device
        rows = self._rows(given, tokenizer)
        note_context(max(map(len, rows)), self.config.context)
        ids, lengths = pad(rows, device)
        rule = None if len({len(row) for row in rows}) == 1 else masks.padding(lengths)
        source: tuple[Any, ...] = ()
        more: dict[str, Any] = {}
        if self.kind == "encoder-decoder":
            source, more = (ids,), {"source_mask": rule}
            ids, lengths = pad(_said(model, rows, tokenizer, target), device)
            rule = masks.padding(lengths)

        def run(ids: Tensor) -> Tensor:
            with quiet(model):
                logits = model(ids, *source, mask=rule, **more)
            if logits.shape[-1] != self.config.vocab or self.config.head == "none":
                raise wordless(model)
            return logits.float()

        return Question(run, ids, torch.arange(ids.shape[1], device=device) < lengths[:, None])

    def translation(self, text: str, tokenizer: Any, *, cache: bool = True) -> str:
        """As `qkv translate` with one beam."""
        rows = self._rows(text, tokenizer)
        return tokenizer.decode(translate_ids(self.model, tokenizer, rows, width=1, most=MOST, cache=cache)[0])

    @contextmanager
    def editing(self, layers: Iterable[Layer]) -> Iterator[Mapping[Layer, str]]:
        """Ours call their attention by part and layer, whichever model it is."""
        yield {(part, layer): f"{'decoder' if part == 'mixers' else part}.{layer}" for part, layer in layers}

    def _rows(self, given: Any, tokenizer: Any) -> Rows:
        """Token ids; an encoder-decoder's end."""
        rows = ids_of(given, tokenizer)
        return reader_of(tokenizer).source(rows) if self.kind == "encoder-decoder" else rows


@torch.no_grad()
def _trace(model: Any, rows: Rows, tokenizer: Any, target: Any, logits: bool, name: str, text: str) -> Trace:
    device = model.embedding.weight.device
    ids, lengths = pad(rows, device)
    mask = None if len({len(row) for row in rows}) == 1 else masks.padding(lengths)
    source, said = rows, rows
    # States alone, not logits: those of a long text over a large vocabulary would be larger than all the rest.
    with quiet(model):
        if model.config.kind == "encoder-decoder":
            said = _said(model, rows, tokenizer, target)
            target_ids, target_lengths = pad(said, device)
            target_mask = None if len({len(row) for row in said}) == 1 else masks.padding(target_lengths)
            with record() as calls:
                memory = model.encode(ids, mask)
                states = model.decode(target_ids, memory, mask=target_mask, memory_mask=mask)
        elif model.config.kind == "decoder" and len(rows) == 1 and is_long(len(rows[0])):
            calls, states = _in_chunks(model, ids)
        else:
            with record() as calls:
                states = model.encode(ids, mask) if model.config.kind == "encoder" else model.decode(ids, mask=mask)
    texts = {"source": _tokens(tokenizer, source, ids.shape[1]), "target": _tokens(tokenizer, said, None)}
    layers, numbers = _group(calls)
    sides = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}
    sides["mixers"] = sides["decoder"]
    queries, keys = ({part: texts[sides[part][side]] for part in layers} for side in (0, 1))
    more: dict[str, Any] = {"position": model.config.position, "kind": model.config.kind}
    if "cross" in queries:  # a row of cross-attention is known by the word it makes
        most = None if target is not None else _cut(model, said)
        more |= {} if most is None else {"cut": most}
        # The longest of a batch is the one that was cut.
        longest = max(map(len, said))
        ends = [CUT if most is not None and len(row) == longest else END for row in said]
        queries["cross"] = [tokens.ahead(end) for tokens, end in zip(queries["cross"], ends, strict=True)]
    if logits:
        more["logits"] = model.head(states).float()
    return Trace(layers, queries, keys, name, text, _outputs(model), more, _turning(model), numbers)


def _turning(model: Any) -> Turning | None:
    """What turns q and k of a model's layers, which share it."""
    turns = (getattr(block.attention, "position", None) for block in model.decoder or model.encoder)
    found = next((position for position in turns if position is not None), None)
    if not isinstance(found, Rotary) or found.interleaved:
        return None
    return Turning(found.frequencies, found.stretch)


def _in_chunks(model: Any, ids: Tensor) -> tuple[list[Call], Tensor]:
    """The calls of a whole text, and its states, from chunks that share a cache: what a layer computes on the way is only
    ever a chunk long. Keys and values are the cache's own."""
    n = ids.shape[1]
    cache = model.new_cache(1, n)
    cache.layers = [_unforgetful(layer, n) for layer in cache.layers]
    attending = [block.attention for block in model.decoder if not isinstance(block.attention, StateMixer)]
    position = getattr(attending[0], "position", None) if attending else None  # one for all layers, and so is its bias
    bias = position.bias(n, n, device=ids.device) if isinstance(position, ALiBi | Relative) else None
    whole: list[Call] = []
    states = []
    for span in chunks(n):
        with record() as calls:
            states.append(model.decode(ids[:, span], cache=cache))
        join_calls(whole, calls, span, n)
    return [call if bias is None else replace(call, bias=bias) for call in whole], torch.cat(states, 1)


def _unforgetful(cache: Any, n: int) -> Any:
    """A window's cache lets go of keys that nobody will look at again; a trace keeps them all."""
    if not isinstance(cache, WindowCache):
        return cache
    _, heads, _, width = cache.k.shape
    return KVCache(1, heads, n, width, dtype=cache.k.dtype, device=cache.k.device)


def _said(model: Any, rows: Rows, tokenizer: Any, target: Any) -> Rows:
    """The decoder's side, its start token first."""
    if target is None:
        if tokenizer is None:
            raise Problem("a text needs a tokenizer: pass tokenizer=, or give token ids")
        found = translate_ids(model, tokenizer, rows, most=MOST)
    else:
        given = [target] if isinstance(target, str) else list(listed(target))
        given = [given] if given and isinstance(given[0], int) else given
        reader = reader_of(tokenizer)
        found = [reader.target(text) if isinstance(text, str) else list(listed(text)) for text in given]
        if len(found) != len(rows):
            raise uneven(len(rows), len(found))
    start = [] if tokenizer is None or tokenizer.start is None else [tokenizer.start]
    return [[*start, *ids] for ids in found]


def _cut(model: Any, said: Rows) -> int | None:
    """The number of tokens after which what a model says was cut off, if that happened; `said` begins with its start."""
    most = min(MOST, model.config.context) if model.config.position == "learned" else MOST
    return most if max(map(len, said)) > most else None


def _tokens(tokenizer: Any, rows: Rows, length: int | None) -> list[Tokens]:
    """Labels of every row; short ones are filled up with padding, which is special."""
    length = max(map(len, rows)) if length is None else length
    made, reader = [], reader_of(tokenizer)
    for row in rows:
        tokens = reader.tokens(row)
        missing = length - len(row)
        if missing:
            fill = tuple(("[PAD]", len(row) + i, len(row) + i + 1) for i in range(missing))
            tokens = Tokens(
                tokens.pieces + ("[PAD]",) * missing,
                tokens.special + (True,) * missing,
                tokens.ids,
                tokens.whole + fill,
            )
        made.append(tokens)
    return made


def _group(calls: list[Any]) -> tuple[dict[str, list[Any]], dict[str, tuple[int, ...]]]:
    """Calls by part, in the order of their layers, and the layers' numbers where a part has not all of them; calls are
    named "decoder.3", "cross.0", …"""
    layers: dict[str, list[Any]] = {}
    numbers: dict[str, list[int]] = {}
    for call in calls:
        part, number = (call.name or "decoder.0").split(".")
        part = "mixers" if isinstance(call, Mixing) else part
        layers.setdefault(part, []).append(call)
        numbers.setdefault(part, []).append(int(number))
    return layers, {part: tuple(each) for part, each in numbers.items() if "mixers" in layers}


def _outputs(model: Any) -> dict[str, Projection]:
    """The output projections of our model's layers, by name: those that read the heads' outputs as they are.

    Between a mixer and its projection there are a norm and a gate, and some attention has a gate.
    """
    found = {}
    for part in ("encoder", "decoder"):
        for i, block in enumerate(getattr(model, part) or ()):
            for side, heads in ((part, block.attention), ("cross", getattr(block, "cross", None))):
                out = getattr(heads, "out", None)
                if out is not None and getattr(heads, "gate", None) is None and not isinstance(heads, StateMixer):
                    found[f"{side}.{i}"] = Projection(out.weight, out.bias)
    return found
