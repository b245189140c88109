"""Generate with a trained model: continue a text, translate one, fill in masked words.

`generate` works on tokens; `stream`, `complete`, `translate` and `fill` take a tokenizer and work on text.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..i18n import Notice, Problem
from ..model.transformer import Transformer
from ..text.generation_defaults import GenerationDefaults
from .prefill import Lengths, Prompts, Reading, as_rows, note_context, quiet, source_rows
from .sampling import Sampling, draws, token_mask
from .token_constraints import obey

if TYPE_CHECKING:
    from ..text.tokenizer import Tokenizer
    from .beam_search import Candidate


def generate(
    model: Transformer,
    prompts: Prompts,
    *,
    most: int | None = 128,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    seed: int | Sequence[int] = 0,
    stop: Sequence[int] = (),
    never: Sequence[int] = (),
    source: Prompts | None = None,
    source_lengths: Lengths | None = None,
    cache: bool = True,
    habits: GenerationDefaults | None = None,
    on_token: Callable[[int, int], object] | None = None,
) -> list[list[int]]:
    """Return up to `most` new tokens for each prompt, ending before a token of `stop` and without tokens of `never`.

    Prompts may differ in length. `most=None` fills the model's context. `Sampling` describes how tokens are chosen. Item i
    draws with seed + i (or its own seed), so its text doesn't depend on the rest of the batch. An encoder-decoder reads
    `source`, a list per prompt or a padded tensor with `source_lengths`. `on_token(item, token)` is called for each new
    token; if it returns True, that item ends. `cache=False` recomputes everything at each step. `habits` are the generation
    settings from the model's files (`tokenizer.habits`).

    >>> from ..model.config import Config
    >>> _ = torch.manual_seed(0)
    >>> model = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4))
    >>> both = generate(model, [[1, 2, 3], [4]], most=5, temperature=1.0, seed=[7, 8])
    >>> both[1] == generate(model, [[4]], most=5, temperature=1.0, seed=8)[0]
    True
    """
    texts: list[list[int]] = [[] for _ in range(len(prompts))]
    sampling = Sampling(temperature, top_k, top_p, repetition_penalty)
    growing = grow(
        model,
        prompts,
        sampling,
        most=most,
        seed=seed,
        stop=stop,
        never=never,
        source=source,
        source_lengths=source_lengths,
        cache=cache,
        habits=habits,
    )
    ended = None
    while True:
        try:
            item, token = growing.send(ended)
        except StopIteration:
            return texts
        texts[item].append(token)
        ended = on_token is not None and on_token(item, token) is True


def grow(
    model: Transformer,
    prompts: Prompts,
    sampling: Sampling,
    *,
    most: int | None = 128,
    seed: int | Sequence[int] = 0,
    stop: Sequence[int] = (),
    never: Sequence[int] = (),
    source: Prompts | None = None,
    source_lengths: Lengths | None = None,
    cache: bool = True,
    habits: GenerationDefaults | None = None,
) -> Generator[tuple[int, int], bool | None, None]:
    """Yield (item, token) step by step; send True to end that item. Arguments as in `generate`."""
    rows = as_rows("prompt", prompts, model.config.vocab)
    if not rows:
        return
    most = _room(model, rows) if most is None else most
    if most < 1:
        raise Problem("most is {value}: give how many new tokens may come, 1 or more", value=most)
    seeds = [seed + i for i in range(len(rows))] if isinstance(seed, int) else list(seed)
    if len(seeds) != len(rows):
        raise Problem(
            "there are {prompts} prompts but {seeds} seeds: give one number, or one per prompt",
            prompts=len(rows),
            seeds=len(seeds),
        )
    reading = Reading(model, rows, most=most, source=source, source_lengths=source_lengths, cache=cache)
    luck = draws(seeds, most if sampling.temperature else 0).to(reading.logits.device)
    previous = token_mask(rows, reading.logits) if sampling.needs_history else None
    items, ends = list(range(len(rows))), frozenset(int(i) for i in stop)
    unsaid = torch.tensor(list(never), device=reading.logits.device) if never else None
    texts, prompt_lengths = [list(row) for row in rows], [len(row) for row in rows]
    sources = None if habits is None or source is None else source_rows(model, source, source_lengths)
    room = model.config.context - max(map(len, rows))  # new tokens that fit into the context
    for n in range(most):
        if room >= 0 and n == room + 1:
            warnings.warn(
                Notice(
                    "the text grew beyond the model's context of {context} tokens: what follows from there may make no "
                    "sense",
                    context=model.config.context,
                ),
                stacklevel=2,
            )
        logits = sampling.penalize(reading.logits, previous)
        logits = logits if unsaid is None else logits.index_fill(1, unsaid, float("-inf"))
        if habits is not None:
            generated, prompted = [texts[i] for i in items], [prompt_lengths[i] for i in items]
            read = None if sources is None else [sources[i] for i in items]
            logits = obey(habits, logits, generated, prompted, last=n + 1 == most, ends=stop, sources=read)
        tokens = sampling.choose(logits, luck[:, n] if sampling.temperature else luck)
        alive = []
        for row, token in enumerate(tokens.tolist()):
            texts[items[row]].append(token)
            if token not in ends and not (yield items[row], token):
                alive.append(row)
        if not alive or n + 1 == most:
            return
        if previous is not None:
            previous[torch.arange(len(tokens), device=tokens.device), tokens] = True
        if len(alive) < len(items):
            reading.keep(alive)
            tokens, luck, items = tokens[alive], luck[alive], [items[row] for row in alive]
            previous = None if previous is None else previous[alive]
        reading.feed(tokens)


def stream(
    model: Transformer,
    tokenizer: Tokenizer,
    text: str | Sequence[int],
    *,
    most: int | None = 128,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float | None = None,
    seed: int = 0,
    stop: Sequence[str] = (),
    on_token: Callable[[int], object] | None = None,
) -> Iterator[str]:
    """Yield the continuation of a text (or its tokens) in pieces of whole characters, ending before any text in `stop`.

    `tokenizer.habits` apply and provide the default of the repetition penalty.
    """
    penalty = tokenizer.habits.repetition_penalty if repetition_penalty is None else repetition_penalty
    sampling = Sampling(temperature, top_k, top_p, penalty)
    ids = _begin(tokenizer, text) if isinstance(text, str) else list(text)
    ends: dict[str, Any] = dict(stop=tokenizer.ends, never=tokenizer.never, habits=tokenizer.habits)
    growing = grow(model, [ids], sampling, most=most, seed=seed, **ends)

    def tokens() -> Iterator[int]:
        for _, token in growing:
            if on_token is not None:
                on_token(token)
            yield token

    yield from until(tokenizer.stream(tokens()), stop)


def complete(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str | Sequence[int]],
    *,
    stop: Sequence[str] = (),
    **options: Any,
) -> list[str]:
    """Return the continuation of each text (or its tokens), computed as one batch, ending before any text in `stop`.

    Other options are those of `generate`.
    """
    tails: list[list[int]] = [[] for _ in texts]
    # A character has at most four tokens (bytes), so a stop text that has just ended lies within the last `reach` tokens.
    reach = 4 * max((len(s) for s in stop), default=0) + 4

    def ended(item: int, token: int) -> bool:
        tails[item] = [*tails[item][-reach:], token]
        tail = tokenizer.decode(tails[item])
        return any(s in tail for s in stop)

    prompts = [_begin(tokenizer, text) if isinstance(text, str) else list(text) for text in texts]
    ends: dict[str, Any] = dict(stop=tokenizer.ends, never=tokenizer.never, habits=tokenizer.habits)
    options = {"repetition_penalty": tokenizer.habits.repetition_penalty} | options
    rows = generate(model, prompts, **ends, on_token=ended if stop else None, **options)
    return ["".join(until(tokenizer.stream(ids), stop)) for ids in rows]


def until(pieces: Iterator[str], stop: Sequence[str]) -> Iterator[str]:
    """Yield the pieces of a text up to the first stop text; a possible beginning of one is delayed until it is certain.

    >>> list(until(iter(["one t", "wo\\n", "\\nthree"]), ["\\n\\n"]))
    ['one t', 'wo']
    """
    if any(not s for s in stop):
        raise Problem("a stop text is empty: every text would end before it began; leave it out")
    pending = ""
    for piece in pieces:
        pending += piece
        cuts = [pending.find(s) for s in stop if s in pending]
        if cuts:
            if min(cuts):
                yield pending[: min(cuts)]
            return
        overlap = max((n for s in stop for n in range(1, len(s)) if pending.endswith(s[:n])), default=0)
        if len(pending) > overlap:
            yield pending[: len(pending) - overlap]
            pending = pending[len(pending) - overlap :]
    if pending:
        yield pending


def translate(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    width: int | None = None,
    most: int = 128,
    length_penalty: float | None = None,
) -> list[str]:
    """Return the translation of each text by an encoder-decoder; `width` above 1 is the number of beams.

    `tokenizer.habits` apply; `width` and `length_penalty` default to theirs, or else to 1.
    """
    if tokenizer.eos is None:
        raise Problem("the tokenizer has no eos token, which ends a source text: was it made for translation?")
    sources = [source_ids(tokenizer, text) for text in texts]
    rows = translate_ids(model, tokenizer, sources, width=width, most=most, length_penalty=length_penalty)
    return [tokenizer.decode(ids) for ids in rows]


def source_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens of a text as an encoder reads it: framed by the tokenizer and ended by eos."""
    ids = tokenizer.frame(tokenizer.encode(text))
    return ids if tokenizer.eos is None or ids[-1:] == [tokenizer.eos] else [*ids, tokenizer.eos]


def translate_ids(
    model: Transformer,
    tokenizer: Tokenizer,
    sources: Sequence[Sequence[int]],
    *,
    width: int | None = None,
    most: int = 128,
    length_penalty: float | None = None,
    cache: bool = True,
) -> list[list[int]]:
    """Translate tokens: sources end in eos; the returned tokens contain neither bos nor eos."""
    if not sources:
        return []
    habits = tokenizer.habits
    width = (habits.num_beams or 1) if width is None else width
    if width > 1:
        return [best[0].tokens for best in _beams(model, tokenizer, sources, width, 1, most, length_penalty, cache)]
    begin, options = _beginning(model, tokenizer, len(sources), most)
    return generate(model, begin, source=sources, repetition_penalty=habits.repetition_penalty, cache=cache, **options)


def alternatives(
    model: Transformer, tokenizer: Tokenizer, text: str, *, width: int = 4, most: int = 128
) -> list[Candidate]:
    """Return the `width` best translations of a text by beam search, with their scores, the best first."""
    sources = [source_ids(tokenizer, text)]
    return _beams(model, tokenizer, sources, width, width, most, None, True)[0]


def _beams(
    model: Transformer,
    tokenizer: Tokenizer,
    sources: Sequence[Sequence[int]],
    width: int,
    best: int,
    most: int,
    length_penalty: float | None,
    cache: bool,
) -> list[list[Candidate]]:
    from .beam_search import beam

    begin, options = _beginning(model, tokenizer, len(sources), most)
    if length_penalty is None:
        length_penalty = 1.0 if tokenizer.habits.length_penalty is None else tokenizer.habits.length_penalty
    return beam(
        model, begin, source=sources, width=width, best=best, length_penalty=length_penalty, cache=cache, **options
    )


def _beginning(
    model: Transformer, tokenizer: Tokenizer, count: int, most: int
) -> tuple[list[list[int]], dict[str, Any]]:
    """Return the first tokens of `count` translations, and the options that end them."""
    if tokenizer.start is None or not tokenizer.ends:
        raise Problem("the tokenizer has no bos or no eos token, which a translation begins and ends with")
    if model.config.position == "learned":
        most = min(most, model.config.context)
    ends = dict(stop=tokenizer.ends, never=tokenizer.never, habits=tokenizer.habits)
    return [[tokenizer.start]] * count, dict(most=most, **ends)


def fill(model: Transformer, tokenizer: Tokenizer, text: str, k: int = 5) -> list[list[tuple[str, float]]]:
    """Return the k most likely words for each [MASK] in a text with their probabilities, the most likely first."""
    return guess(model, tokenizer, masked_ids(model, tokenizer, text), k)


def masked_ids(model: Transformer, tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens of a text with [MASK] as an encoder reads them."""
    if model.encoder is None or model.decoder is not None or not model.config.predicts_words:
        raise Problem("this model doesn't fill in words: it needs an encoder trained on hidden words (qkv train mlm)")
    if tokenizer.mask is None:
        raise Problem("the tokenizer has no mask token: was this model trained on hidden words (qkv train mlm)?")
    ids = tokenizer.encode(text, special=True)
    if tokenizer.bos is not None and tokenizer.eos is not None:  # as BERT reads: [CLS] text [SEP]
        ids = [*([] if ids[:1] == [tokenizer.bos] else [tokenizer.bos]), *ids]
        ids = [*ids, *([] if ids[-1] == tokenizer.eos else [tokenizer.eos])]
    if tokenizer.mask not in ids:
        raise Problem(
            "the text has no {name}: write it where a word is to be guessed, as in 'the {name} sat'",
            name=tokenizer.special["mask"],
        )
    if model.config.position == "learned" and len(ids) > model.config.context:
        raise Problem(
            "the text has {longest} tokens but this model learned {context} positions: shorten it",
            longest=len(ids),
            context=model.config.context,
        )
    note_context(len(ids), model.config.context)
    return ids


def guess(model: Transformer, tokenizer: Tokenizer, ids: Sequence[int], k: int = 5) -> list[list[tuple[str, float]]]:
    """Fill in tokens from `masked_ids`; see `fill`."""
    if k < 1:
        raise Problem("{value} guesses were asked for: give 1 or more", value=k)
    with quiet(model):
        row = torch.tensor([list(ids)], device=model.embedding.weight.device)
        logits = model(row)[0, row[0] == tokenizer.mask].float()  # (masks, V)
        # Special tokens are not words.
        logits[:, [i for i in tokenizer.special_ids if i < logits.shape[1]]] = float("-inf")
        shares, words = logits.softmax(-1).topk(min(k, logits.shape[1]))
    return [
        [(tokenizer.pieces([word])[0], share) for word, share in zip(*pair, strict=True) if share > 0]
        for pair in zip(words.tolist(), shares.tolist(), strict=True)
    ]


def _begin(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens of a prompt; an empty prompt becomes the token that starts a document."""
    ids = tokenizer.frame(tokenizer.encode(text)) if text else []
    start = tokenizer.bos if tokenizer.bos is not None else tokenizer.eos
    if not ids and start is None:
        raise Problem("the text is empty and the tokenizer has no token to begin with: give at least one character")
    return ids or [start]  # type: ignore[list-item]


def _room(model: Transformer, rows: list[list[int]]) -> int:
    longest = max(map(len, rows))
    room = model.config.context - longest + 1
    if room < 1:
        raise Problem(
            "the prompt has {longest} tokens and fills the context of {context}: shorten it",
            longest=longest,
            context=model.config.context,
        )
    return room
