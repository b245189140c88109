"""`qkv.trace`: run a model on a text once, listening, and keep what every attention received.

The model runs with its fast kernels as always; listening costs references, not copies. Models of ours and of Hugging
Face's `transformers` give the same `Trace`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..attention.dispatch import Call, record
from ..words import Problem
from .tokens import CUT, END, Tokens, read
from .traces import Projection, Trace, Turning

CHUNK = 2048  # tokens of a long text that go through a model at once
MOST = 128  # tokens that an encoder-decoder may say where nobody gave a target
Given = str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]] | Tensor


def trace(
    model: Any,
    given: Given,
    tokenizer: Any = None,
    *,
    target: Given | None = None,
    logits: bool = False,
    name: str = "",
    eager: bool = False,
) -> Trace:
    """What every attention of a model receives on a text, on token ids, or on a batch of either.

    An encoder-decoder reads `given` and says `target`; where that isn't given, it is what the model itself says
    (greedily). `logits` keeps the model's logits in `trace.more["logits"]`. `eager` is for models of `transformers` that
    can't be listened to: the weights they give themselves are kept whole, n² of them, without q, k and v.

    >>> from ..model.config import Config
    >>> from ..model.transformer import Transformer
    >>> _ = torch.manual_seed(0)
    >>> made = trace(Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)), [3, 1, 4, 1, 5])
    >>> made.map(1, 3).shape, round(float(made.map(1, 3).sum()), 5)
    ((5, 5), 5.0)
    """
    from ..model.reading import as_rows, note_context
    from ..model.transformer import Transformer

    if not isinstance(model, Transformer):
        from . import huggingface

        return huggingface.trace(model, given, tokenizer, target=target, logits=logits, name=name, eager=eager)
    rows = ids_of(given, tokenizer)
    if model.config.kind == "encoder-decoder" and tokenizer is not None and tokenizer.eos is not None:
        rows = [row if row[-1] == tokenizer.eos else [*row, tokenizer.eos] for row in rows]  # see generate.source_ids
    rows = as_rows("source", rows, model.config.vocab)
    longest = max(map(len, rows))
    if model.config.position == "learned" and longest > model.config.context:
        raise Problem(
            "the text has {tokens} tokens and this model learned {context} positions: shorten it",
            tokens=longest,
            context=model.config.context,
        )
    beyond = note_context(longest, model.config)
    found = _trace(model, rows, tokenizer, target, logits, name, given if isinstance(given, str) else "")
    return replace(found, more=found.more | beyond)


def reads_and_writes(model: Any) -> bool:
    """Is it an encoder-decoder?"""
    config = getattr(model, "config", None)
    return getattr(config, "kind", "") == "encoder-decoder" or bool(getattr(config, "is_encoder_decoder", False))


def ids_of(given: Any, tokenizer: Any) -> list[list[int]]:
    """Token ids per item, framed as the tokenizer frames a text."""
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Mapping) or hasattr(given, "input_ids"):  # what a tokenizer of transformers makes
        ids, real = _listed(given["input_ids"]), given.get("attention_mask")
        given = ids if real is None else _real(ids, _listed(real))
    items = list(_listed(given))
    if not items:
        raise Problem('the text is empty: give at least one word, as in  qkv steps "我 爱 北京"')
    if isinstance(items[0], int):
        items = [items]
    if isinstance(items[0], str):
        if tokenizer is None:
            raise Problem("a text needs a tokenizer: pass tokenizer=, or give token ids")
        if hasattr(tokenizer, "frame"):
            items = [tokenizer.frame(tokenizer.encode(text, special=True)) for text in items]
        else:  # one of transformers'
            items = [tokenizer(text)["input_ids"] for text in items]
    rows = [[int(i) for i in row] for row in items]
    if any(not row for row in rows):
        raise Problem('the text is empty: give at least one word, as in  qkv steps "我 爱 北京"')
    return rows


def _listed(values: Any) -> Any:
    """Tensors and arrays as lists."""
    return values.tolist() if hasattr(values, "tolist") else values


def _real(ids: list[Any], real: list[Any]) -> list[list[int]]:
    """Without the padding."""
    return [[i for i, here in zip(row, mark, strict=True) if here] for row, mark in zip(ids, real, strict=True)]


@torch.no_grad()
def _trace(
    model: Any, rows: list[list[int]], tokenizer: Any, target: Given | None, logits: bool, name: str, text: str
) -> Trace:
    from ..attention import masks
    from ..model.reading import pad, quiet

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
        elif _by_chunks(model, rows):
            calls, states = _in_chunks(model, ids)
        else:
            with record() as calls:
                states = model.encode(ids, mask) if model.config.kind == "encoder" else model.decode(ids, mask=mask)
    texts = {"source": _tokens(tokenizer, source, ids.shape[1]), "target": _tokens(tokenizer, said, None)}
    layers = group(calls)
    sides = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}
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
    return Trace(layers, queries, keys, name, text, outputs_of(model), more, _turning(model))


def _turning(model: Any) -> Turning | None:
    """What turns q and k of a model's layers, which share it."""
    from ..attention.positions import Rotary

    found = getattr(next(iter(model.decoder or model.encoder)).attention, "position", None)
    if not isinstance(found, Rotary) or found.interleaved:
        return None
    return Turning(found.frequencies, found.stretch)


def _by_chunks(model: Any, rows: list[list[int]]) -> bool:
    """Long texts go through a decoder a chunk at a time."""
    return model.config.kind == "decoder" and len(rows) == 1 and len(rows[0]) > CHUNK


def chunks(n: int) -> list[slice]:
    """n tokens in as few chunks as may be, all of about one size.

    >>> chunks(CHUNK + 2)
    [slice(0, 1025, None), slice(1025, 2050, None)]
    """
    count = -(-n // CHUNK)
    return [slice(n * i // count, n * (i + 1) // count) for i in range(count)]


def _in_chunks(model: Any, ids: Tensor) -> tuple[list[Call], Tensor]:
    """The calls of a whole text, and its states, from chunks that share a cache: what a layer computes on the way is only
    ever a chunk long. Keys and values are the cache's own."""
    from ..attention.positions import ALiBi, Relative

    n = ids.shape[1]
    cache = model.new_cache(1, n)
    cache.layers = [_unforgetful(layer, n) for layer in cache.layers]
    position = getattr(model.decoder[0].attention, "position", None)  # one for all layers, and so is its bias
    bias = position.bias(n, n, device=ids.device) if isinstance(position, ALiBi | Relative) else None
    whole: list[Call] = []
    states = []
    for span in chunks(n):
        with record() as calls:
            states.append(model.decode(ids[:, span], cache=cache))
        join_calls(whole, calls, span, n)
    return [replace(call, bias=bias) for call in whole], torch.cat(states, 1)


def join_calls(whole: list[Call], calls: list[Call], span: slice, n: int) -> None:
    """Add a chunk's queries to the calls of a text of n tokens; keys and values are those seen so far.

    The mask is a rule of distances, the same for every chunk.
    """
    for i, call in enumerate(calls):
        if span.start == 0:  # room for all queries at once: joining chunks later would hold them twice
            batch, heads, _, width = call.q.shape
            whole.append(replace(call, q=call.q.new_empty(batch, heads, n, width)))
        whole[i].q[:, :, span] = call.q
        whole[i] = replace(whole[i], k=call.k, v=call.v, mask=call.mask)


def _unforgetful(cache: Any, n: int) -> Any:
    """A window's cache lets go of keys that nobody will look at again; a trace keeps them all."""
    from ..attention.cache import KVCache, WindowCache

    if not isinstance(cache, WindowCache):
        return cache
    _, heads, _, width = cache.k.shape
    return KVCache(1, heads, n, width, dtype=cache.k.dtype, device=cache.k.device)


def _said(model: Any, rows: list[list[int]], tokenizer: Any, target: Given | None) -> list[list[int]]:
    """The decoder's side, its start token first."""
    from ..model.generation import translate_ids

    if target is None:
        if tokenizer is None:
            raise Problem("a text needs a tokenizer: pass tokenizer=, or give token ids")
        found = translate_ids(model, tokenizer, rows, most=MOST)
    else:
        given = [target] if isinstance(target, str) else list(_listed(target))
        given = [given] if given and isinstance(given[0], int) else given
        found = [tokenizer.encode(text) if isinstance(text, str) else list(_listed(text)) for text in given]
        if len(found) != len(rows):
            raise Problem(
                "there are {sources} texts and {targets} targets: give one for each",
                sources=len(rows),
                targets=len(found),
            )
    start = [] if tokenizer is None or tokenizer.start is None else [tokenizer.start]
    return [[*start, *ids] for ids in found]


def _cut(model: Any, said: list[list[int]]) -> int | None:
    """The number of tokens after which what a model says was cut off, if that happened; `said` begins with its start."""
    most = min(MOST, model.config.context) if model.config.position == "learned" else MOST
    return most if max(map(len, said)) > most else None


def _tokens(tokenizer: Any, rows: list[list[int]], length: int | None) -> list[Tokens]:
    """Labels of every row; short ones are filled up with padding, which is special."""
    length = max(map(len, rows)) if length is None else length
    made = []
    for row in rows:
        tokens = read(tokenizer, row)
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


def group(calls: list[Call]) -> dict[str, list[Call]]:
    """Calls by part, in the order of their layers; their names are "decoder.3", "cross.0", …"""
    layers: dict[str, list[Call]] = {}
    for call in calls:
        part = (call.name or "decoder.0").split(".")[0]
        layers.setdefault(part, []).append(call)
    return layers


def outputs_of(model: Any) -> dict[str, Projection]:
    """The output projections of our model's layers, by name."""
    found = {}
    for part in ("encoder", "decoder"):
        for i, block in enumerate(getattr(model, part) or ()):
            for side, heads in ((part, block.attention), ("cross", getattr(block, "cross", None))):
                out = getattr(heads, "out", None)
                if out is not None:
                    found[f"{side}.{i}"] = Projection(out.weight, out.bias)
    return found
