"""Change where heads look while a model runs, and see what becomes of its words: which heads matter, and for what.

    with qkv.edit(model, "13.8"):                   layer 13, head 8 gives nothing
    with qkv.edit(model, "cross.4.*", to="uniform"):    all heads of a layer look everywhere alike
    without(model, tokenizer, "The cat sat because", "13.8")    the next word before and after
    importance(model, texts, tokenizer)             every head by what the loss says when it is gone

Models of ours and of transformers; the layers that aren't edited keep their fast kernels.

B batch, H heads of one edit, N queries, M keys, V vocabulary.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..attention import masks
from ..attention.dispatch import Call, replace_weights
from ..attention.rules import Band, Placed
from ..words import Problem, all_of, unknown
from . import inputs as feeding
from . import registry
from .ranking import strongest
from .recorder import ids_of
from .tokens import PARTS, read, show
from .traces import no_layer

Where = dict[tuple[str, int], list[int]]  # (part, layer) → heads


@contextmanager
def edit(model: Any, heads: str | Sequence[str], to: str = "zero") -> Iterator[None]:
    """Inside the block these heads' weights are replaced: "13.8" is layer 13, head 8, "cross.4.2" of a part, * all.

    Without a part the first there is is meant, as in a trace: encoder or decoder. What the weights become:

    - zero: the head gives nothing, as if its columns of the output projection were 0.
    - uniform: equal shares over the keys that a query may see.
    - mean: every query looks where the head's queries look on average. A key's mean share is taken over the queries that
      may see it (padding left out); each query's shares are those of the keys it may see, scaled to sum to 1, or equal
      ones where all of those are 0. With a cache a call has one query, whose mean is itself: run without one.
    - self: a query looks at itself alone. Cross-attention has no such place and is refused.
    - none: nothing changes, bit for bit; the names are checked all the same.

    Padded queries that may see nothing go on giving 0, and an attention sink (GPT-OSS) gets no share of what is replaced.
    Blocks may be nested: an inner edit sees what the outer one made. A model of ours is known by its layers' names, so
    that another one of ours, run inside the block, is edited too.

    >>> from ..model.config import Config
    >>> from ..model.transformer import Transformer
    >>> _ = torch.manual_seed(0)
    >>> model, ids = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)), torch.tensor([[3, 1, 4]])
    >>> before = model(ids)
    >>> with edit(model, "1.3"):
    ...     after = model(ids)
    >>> bool((before == after).all()), bool((before == model(ids)).all())
    (False, True)
    """
    if to not in CHANGES:
        raise unknown("to", to, CHANGES)
    where = find(model, heads)
    if to == "self" and any(part == "cross" for part, _ in where):
        raise Problem(
            "cross-attention looks at another text, where no token is itself: use to='uniform', 'mean' or 'zero'"
        )
    change = CHANGES[to]
    with ExitStack() as stack:
        if change is not None:
            names = {(part, layer): f"{part}.{layer}" for part, layer in where}
            if not _ours(model):
                model = registry.known(model)
                names = {key: f"{name} of {id(model)}" for key, name in names.items()}
                stack.enter_context(registry.editing(model, names))
            for key, chosen in where.items():
                stack.enter_context(replace_weights(change, name=names[key], heads=chosen, told=True))
        yield


def shape(model: Any) -> dict[str, dict[int, int]]:
    """How many heads each layer of each part has; only those that attend.

    >>> from ..model.config import Config
    >>> from ..model.transformer import Transformer
    >>> shape(Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)))
    {'decoder': {0: 4, 1: 4}}
    """
    if not _ours(model):
        return registry.heads_of(registry.known(model))
    sides = {"encoder": model.encoder, "decoder": model.decoder}
    if model.config.kind == "encoder-decoder":
        sides["cross"] = model.decoder
    heads = model.config.n_head
    return {part: dict.fromkeys(range(len(sides[part])), heads) for part in PARTS if sides.get(part) is not None}


def find(model: Any, heads: str | Sequence[str]) -> Where:
    """The heads that names such as "13.8", "cross.4.2" or "2.*" mean, each checked."""
    there = shape(model)
    found: dict[tuple[str, int], set[int]] = {}
    for name in [heads] if isinstance(heads, str) else heads:
        *before, layer, head = ["", *str(name).strip().split(".")]
        before = [word for word in before if word]
        if len(before) > 1 or not all(word == "*" or (word.isascii() and word.isdigit()) for word in (layer, head)):
            raise Problem(
                "{name} names no head: write layer.head as in 13.8, or part.layer.head as in cross.4.2; * means all",
                name=name,
            )
        part = before[0] if before else next(iter(there))
        if part not in there:
            raise Problem("this model has no part {part}: it has {parts}", part=part, parts=all_of(there))
        for i in there[part] if layer == "*" else [int(layer)]:
            if i not in there[part]:
                raise no_layer(i, tuple(there[part]))
            found.setdefault((part, i), set()).update(_heads(head, there[part][i]))
    if not found:
        raise Problem(
            "{name} names no head: write layer.head as in 13.8, or part.layer.head as in cross.4.2; * means all",
            name='""',
        )
    return {key: sorted(chosen) for key, chosen in found.items()}


def _heads(word: str, count: int) -> range | list[int]:
    if word == "*":
        return range(count)
    if int(word) >= count:
        raise Problem("there is no head {head}: this layer has 0 … {last}", head=word, last=count - 1)
    return [int(word)]


def _ours(model: Any) -> bool:
    from ..model.transformer import Transformer

    return isinstance(model, Transformer)


def _zero(weights: Tensor, call: Call) -> Tensor:
    return torch.zeros_like(weights)


def _uniform(weights: Tensor, call: Call) -> Tensor:
    allowed = _allowed(weights, call).to(weights.dtype)
    return allowed / allowed.sum(-1, keepdim=True).clamp(min=1)


def _mean(weights: Tensor, call: Call) -> Tensor:
    allowed = _allowed(weights, call)
    asking = allowed
    if weights.shape[2] == weights.shape[3]:  # a text that looks at itself: a key that nobody may see is padding
        asking = allowed & allowed.any(2).unsqueeze(-1)  # (B, H, N, M)
    asking = asking.to(weights.dtype)
    mean = (weights * asking).sum(2, keepdim=True) / asking.sum(2, keepdim=True).clamp(min=1)  # (B, H, 1, M)
    shares = mean * allowed  # (B, H, N, M)
    total = shares.sum(-1, keepdim=True)
    return torch.where(total > 0, shares / total.masked_fill(total == 0, 1), _uniform(weights, call))


def _itself(weights: Tensor, call: Call) -> Tensor:
    allowed = _allowed(weights, call)
    batch, heads, n, m = weights.shape
    placed = next((rule for rule in call.mask.terms() if isinstance(rule, Placed)), None)
    if placed is not None or n == m:
        rule: masks.Mask = Band(0, 0)
        rule = rule if placed is None else rule.placed(placed.queries, placed.keys)
        own = rule.tensor(n, m, batch=batch, heads=heads, device=weights.device)
    else:  # what came last of the keys that a new token may see is itself
        last = m - 1 - allowed.to(torch.uint8).flip(-1).argmax(-1, keepdim=True)
        own = torch.arange(m, device=weights.device) == last
    return (own & allowed).to(weights.dtype)


def _allowed(weights: Tensor, call: Call) -> Tensor:
    allowed = call.allowed()
    if call.bias is not None:
        allowed = allowed & (call.bias != float("-inf"))
    return allowed.expand_as(weights)


CHANGES: dict[str, Callable[[Tensor, Call], Tensor] | None] = {
    "zero": _zero,
    "uniform": _uniform,
    "mean": _mean,
    "self": _itself,
    "none": None,
}


@dataclass(frozen=True)
class Effect:
    """What an edit did: to the next word (an encoder's hidden one) of a text, or to its translation."""

    heads: tuple[str, ...]
    to: str
    words: tuple[tuple[str, float, float], ...] = ()  # (word, its probability before, after), likeliest before first
    moved: float = 0.0  # the share of probability that went to other words, 0 … 1
    said: tuple[str, str] | None = None  # the translation before and after


def without(
    model: Any, tokenizer: Any, text: str, heads: str | Sequence[str], *, to: str = "zero", most: int = 5
) -> Effect:
    """How the model's next word, or its translation, changes when these heads are edited.

    `words` are the `most` likeliest before and the `most` likeliest after, with their probabilities in both.
    """
    if tokenizer is None:
        raise Problem("a text needs a tokenizer: pass tokenizer=, or give token ids")
    names = (heads,) if isinstance(heads, str) else tuple(heads)
    tell: Callable[..., Any] = _translation if _kind(model) == "encoder-decoder" else _expected
    before = tell(model, tokenizer, text, to)
    with edit(model, names, to):
        after = tell(model, tokenizer, text, to)
    if isinstance(before, str):
        return Effect(names, to, said=(before, after), moved=float(before != after))
    k = min(most, len(before))
    top = dict.fromkeys(before.topk(k).indices.tolist() + after.topk(k).indices.tolist())
    words = [(_label(tokenizer, i), float(before[i]), float(after[i])) for i in top]
    moved = float((before - after).abs().sum()) / 2
    return Effect(names, to, tuple(sorted(words, key=lambda word: -word[1])), moved)


def _label(tokenizer: Any, i: int) -> str:
    try:
        return show(read(tokenizer, [i]).pieces[0])
    except Problem:  # a model's vocabulary may be filled up beyond the tokenizer's
        return f"[{i}]"


def _kind(model: Any) -> str:
    if _ours(model):
        return model.config.kind
    known = registry.known(model)
    return "encoder-decoder" if known.config.is_encoder_decoder else next(iter(registry.stacks(known)))


def _translation(model: Any, tokenizer: Any, text: str, to: str) -> str:
    cache = to != "mean"  # see `edit`
    if not _ours(model):
        model = registry.known(model)
        inputs = feeding.inputs_of(model, text, tokenizer)
        ids = feeding.said(model, inputs, tokenizer, use_cache=cache)[0][1:]
        if hasattr(tokenizer, "token_bytes"):
            return tokenizer.decode(ids)
        return tokenizer.decode(ids, skip_special_tokens=True)
    from ..model.generation import generate

    if tokenizer.start is None or not tokenizer.ends:
        raise Problem("the tokenizer has no bos or no eos token, which a translation begins and ends with")
    most = min(feeding.MOST, model.config.context) if model.config.position == "learned" else feeding.MOST
    rows = _sources(model, text, tokenizer)
    how = {name: getattr(tokenizer, name) for name in ("never", "habits") if hasattr(tokenizer, name)}
    if "habits" in how:
        how["repetition_penalty"] = how["habits"].repetition_penalty
    ids = generate(model, [[tokenizer.start]], most=most, stop=tokenizer.ends, source=rows, cache=cache, **how)[0]
    return tokenizer.decode(ids)


def _sources(model: Any, given: Any, tokenizer: Any) -> list[list[int]]:
    """What a model of ours reads; an encoder-decoder's source ends in eos."""
    rows = ids_of(given, tokenizer)
    end = getattr(tokenizer, "eos", None)
    if model.config.kind == "encoder-decoder" and end is not None:
        rows = [row if row[-1] == end else [*row, end] for row in rows]
    return rows


def _expected(model: Any, tokenizer: Any, text: str, to: str) -> Tensor:
    """Probabilities (V,) of the word that comes next, or of the one that [MASK] hides."""
    run, ids, _ = _runs(model, text, tokenizer)
    row = ids[0].tolist()
    if _kind(model) == "encoder":
        hidden = _mask_id(tokenizer)
        if hidden not in row:
            raise Problem(
                "an encoder is asked about a hidden word: write {mask} in the text",
                mask=read(tokenizer, [hidden]).pieces[0],
            )
        at = row.index(hidden)
    else:
        # The tokenizer may end a text; what comes after its end is not the question.
        ends = (getattr(tokenizer, "eos", None), getattr(tokenizer, "eos_token_id", None))
        at = len(row) - (2 if len(row) > 1 and row[-1] in ends else 1)
    return run(ids)[0, at].softmax(-1)


def _mask_id(tokenizer: Any) -> int:
    found = getattr(tokenizer, "mask", getattr(tokenizer, "mask_token_id", None))
    if found is None:
        raise Problem("the tokenizer has no mask token: was this model trained on hidden words (qkv train mlm)?")
    return int(found)


Run = Callable[[Tensor], Tensor]


def _runs(model: Any, given: Any, tokenizer: Any, target: Any = None) -> tuple[Run, Tensor, Tensor]:
    """(logits (B, N, V) as a function of ids, those ids (B, N): a decoder's side, and which of them are real)."""
    if _ours(model):
        from ..model.reading import note_context, pad, quiet
        from .recorder import _said

        device = model.embedding.weight.device
        rows = _sources(model, given, tokenizer)
        note_context(max(map(len, rows)), model.config)
        ids, lengths = pad(rows, device)
        rule = None if len({len(row) for row in rows}) == 1 else masks.padding(lengths)
        source: tuple[Any, ...] = ()
        more: dict[str, Any] = {}
        if model.config.kind == "encoder-decoder":
            source, more = (ids,), {"source_mask": rule}
            ids, lengths = pad(_said(model, rows, tokenizer, target), device)
            rule = masks.padding(lengths)

        def run(ids: Tensor) -> Tensor:
            with quiet(model):
                logits = model(ids, *source, mask=rule, **more)
            if logits.shape[-1] != model.config.vocab or model.config.head == "none":
                raise Problem(
                    "{model} gives states, not words: load it with its language-model head", model=type(model).__name__
                )
            return logits.float()

        return run, ids, torch.arange(ids.shape[1], device=device) < lengths[:, None]
    model = registry.known(model)
    inputs = feeding.inputs_of(model, given, tokenizer)
    feeding.check(model, inputs)
    side = ""
    if feeding.several(model):
        inputs |= feeding.target_of(model, inputs, tokenizer, target)
        side = "decoder_"
    ids, real = inputs[f"{side}input_ids"], inputs.get(f"{side}attention_mask")

    def hear(ids: Tensor) -> Tensor:
        with feeding.resting(model):
            logits = getattr(model(**inputs | {f"{side}input_ids": ids}), "logits", None)
        if logits is None or logits.ndim != 3 or logits.shape[-1] < model.config.get_text_config().vocab_size:
            raise Problem(
                "{model} gives states, not words: load it with its language-model head", model=type(model).__name__
            )
        return logits.float()

    return hear, ids, torch.ones_like(ids) > 0 if real is None else real > 0


class Importance(NamedTuple):
    """A head and by how much the loss rises (in nats per token) when it is edited; below 0, the model does better."""

    part: str
    layer: int
    head: int
    change: float


FORMAT = "qkv importance 1"


def importance(
    model: Any,
    texts: Any,
    tokenizer: Any = None,
    *,
    target: Sequence[Any] | None = None,
    to: str = "zero",
    progress: Callable[[int, int], Any] | None = None,
    resume: str | Path | None = None,
) -> list[Importance]:
    """Every head by how much the loss changes when it alone is edited, the most needed first.

    `texts` is a text or token ids, or a list of such; an entry that is itself a list of texts or of id lists is run as one
    batch. A decoder's loss is that of the next token. An encoder-decoder's is that of `target`, one for each text, or of
    what it says itself. An encoder's is that of every seventh token, hidden behind [MASK].

    `progress(done, total)` is called as heads are done. `resume` names a file (JSON lines) that remembers them: called
    again with the same model and texts, what it holds is not computed anew.
    """
    batches = _batches(texts)
    if target is not None and len(target) != len(batches):
        raise Problem(
            "there are {sources} texts and {targets} targets: give one for each",
            sources=len(batches),
            targets=len(target),
        )
    asked = [
        _question(model, batch, tokenizer, None if target is None else target[i]) for i, batch in enumerate(batches)
    ]
    base = _loss(asked)
    there = shape(model)
    every = [(part, layer, head) for part, layers in there.items() for layer, n in layers.items() for head in range(n)]
    digest = hashlib.sha256()
    for _, ids, labels in asked:
        digest.update(json.dumps([ids.tolist(), labels.tolist()]).encode())
    told = {
        part: [*layers.values()] if [*layers] == [*range(len(layers))] else [[*pair] for pair in layers.items()]
        for part, layers in there.items()
    }
    header = {"format": FORMAT, "heads": told, "to": to, "texts": digest.hexdigest(), "loss": base}
    path = None if resume is None else Path(resume)
    done = {} if path is None else _remembered(path, header)
    for part, layer, head in every:
        if (part, layer, head) not in done:
            with edit(model, f"{part}.{layer}.{head}", to):
                change = _loss(asked) - base
            done[part, layer, head] = change
            if path is not None:
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"part": part, "layer": layer, "head": head, "change": change}) + "\n")
        if progress is not None:
            progress(len(done), len(every))
    return strongest((Importance(*key, done[key]) for key in every), lambda row: row.change)


def _batches(texts: Any) -> list[Any]:
    if isinstance(texts, Tensor):
        texts = texts.tolist()
    if isinstance(texts, str) or (len(texts) and isinstance(texts[0], int)):
        return [texts]
    if not len(texts):
        raise Problem('the text is empty: give at least one word, as in  qkv steps "我 爱 北京"')
    return list(texts)


def _question(model: Any, given: Any, tokenizer: Any, target: Any) -> tuple[Run, Tensor, Tensor]:
    """(run, ids, labels): what is asked of each place, −100 where nothing is."""
    target = [target] if isinstance(target, str) or (target is not None and isinstance(target[0], int)) else target
    run, ids, real = _runs(model, given, tokenizer, target)
    labels = torch.full_like(ids, -100)
    if _kind(model) == "encoder":
        hidden = torch.zeros_like(real)
        hidden[:, 3::7] = True
        hidden &= real
        labels[hidden] = ids[hidden]
        ids = ids.masked_fill(hidden, _mask_id(tokenizer))
    else:
        labels[:, :-1] = ids[:, 1:].masked_fill(~(real[:, 1:] & real[:, :-1]), -100)
    return run, ids, labels


def _loss(asked: list[tuple[Run, Tensor, Tensor]]) -> float:
    """Nats per token over all texts."""
    total, count = 0.0, 0
    for run, ids, labels in asked:
        total += float(F.cross_entropy(run(ids).flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum"))
        count += int((labels != -100).sum())
    if not count:
        raise Problem("these texts leave nothing to predict: give texts of two tokens or more (an encoder: four)")
    return total / count


def _remembered(path: Path, header: dict[str, Any]) -> dict[tuple[str, int, int], float]:
    """What a file of an earlier call holds, made ready to go on; a line that was cut short is dropped."""
    done: dict[tuple[str, int, int], float] = {}
    if path.exists() and path.stat().st_size:
        try:
            first, *lines = path.read_text(encoding="utf-8").splitlines()
            found = json.loads(first)
            same = all(found[key] == header[key] for key in ("format", "heads", "to", "texts"))
            same = same and abs(found["loss"] - header["loss"]) <= 1e-4 * max(abs(header["loss"]), 1e-2)
        except (ValueError, KeyError, TypeError) as error:
            raise Problem("{file} is not a record of head importance: choose another file", file=path) from error
        if not same:
            raise Problem(
                "{file} was made with another model, other texts or another edit: choose another file, or remove it",
                file=path,
            )
        for line in lines:
            try:
                row = json.loads(line)
                done[row["part"], row["layer"], row["head"]] = float(row["change"])
            except (ValueError, KeyError, TypeError):
                continue
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    rows = [{"part": p, "layer": layer, "head": head, "change": value} for (p, layer, head), value in done.items()]
    aside.write_text("".join(json.dumps(row) + "\n" for row in [header, *rows]), encoding="utf-8")
    os.replace(aside, path)
    return done
