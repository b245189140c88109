"""Loss and perplexity of a text, and loss, BLEU and chrF of translations with known references.

A text may be longer than the model's context. It is read in windows of `context` tokens that begin every `stride` tokens;
a window scores the tokens that no earlier window has scored. So each token is scored once, with as many tokens before it as
fit, and never fewer than context − stride + 1:

    tokens    0 1 2 3 4 5 6 7 8        context 4, stride 2
    window 1  ▒ █ █ █ █                ▒ is read, █ is scored (the last of them is not read)
    window 2      ▒ ▒ ▒ █ █
    window 3          ▒ ▒ ▒ █ █

A stride equal to the context cuts the text into disjoint chunks, which is fastest; a stride of 1 gives every token the full
context and takes one window per token. Only one number per token is stored, never the logits.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch

from ..generation.batching import TOKENS, in_batches
from ..generation.decoding import source_ids
from ..i18n import Notice, Problem, pip_install
from ..text.tokenizer import Tokenizer
from .token_losses import Scorer, scorer_of

DEFAULT_CONTEXT = 2048  # tokens of a window if neither the caller nor the model sets it
Progress = Callable[[int, int], object]
HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


class Window(NamedTuple):
    """ids[start:end] are read, ids[first : end + 1] are scored."""

    start: int
    end: int
    first: int


def windows(tokens: int, context: int, stride: int) -> Iterator[Window]:
    """Yield the windows of a text of `tokens` tokens.

    >>> list(windows(9, context=4, stride=2))
    [Window(start=0, end=4, first=1), Window(start=2, end=6, first=5), Window(start=4, end=8, first=7)]
    """
    start, first = 0, 1
    while first < tokens:
        end = min(start + context, tokens - 1)
        yield Window(start, end, first)
        start, first = start + stride, end + 1


@dataclass(frozen=True)
class Losses:
    """Losses of tokens, and how many bytes of UTF-8 they spell."""

    nats: np.ndarray  # a number per token
    n_bytes: int

    @property
    def loss(self) -> float:
        """Nats per token."""
        return float(self.nats.mean())

    @property
    def perplexity(self) -> float:
        """e to the loss: the number of equally likely tokens with the same loss."""
        return math.exp(self.loss) if self.loss < 700 else math.inf

    @property
    def bits_per_byte(self) -> float:
        """Bits per byte of the text, which unlike the loss per token is comparable between tokenizers."""
        return float(self.nats.sum()) / math.log(2) / max(self.n_bytes, 1)


@dataclass(frozen=True)
class TextScore(Losses):
    """Losses of a text; `nats` are those of ids[1:], since the first token has no context."""

    ids: tuple[int, ...]
    context: int
    stride: int
    windows: int


@torch.inference_mode()
def score_text(
    model: object,
    tokenizer: Tokenizer,
    text: str,
    *,
    context: int | None = None,
    stride: int | None = None,
    progress: Progress | None = None,
) -> TextScore:
    """Return the loss of each token of a text under a decoder.

    `context` defaults to the model's, `stride` to half of it. `progress(done, total)` counts tokens.

    >>> from ..text import Bytes
    >>> from ..model import Config, Transformer
    >>> model = Transformer(Config(vocab=256, width=32, n_layer=1, n_head=2, context=16))
    >>> for parameter in model.parameters():
    ...     _ = parameter.data.zero_()
    >>> score = score_text(model, Bytes.make(), "knows nothing: each byte costs eight bits")
    >>> len(score.nats), round(score.perplexity, 3), round(score.bits_per_byte, 3), score.windows
    (40, 256.0, 8.0, 4)
    """
    scorer = scorer_of(model)
    if scorer.kind == "encoder":
        raise Problem(
            "this model is an encoder, which sees a whole text at once: the loss and perplexity of a text are those of "
            "each next word and aren't defined for it; see its guesses of hidden words with  qkv fill"
        )
    if scorer.kind == "encoder-decoder":
        raise Problem(
            "this model is an encoder-decoder, which maps one text to another: give pairs of texts, as in  qkv eval "
            "--pairs zh-en.tsv"
        )
    bare = tokenizer.encode(text)
    ids = tokenizer.frame(bare)
    if len(ids) < 2:
        raise Problem(
            "the text has {tokens} tokens, and a loss is that of a token after others: give two tokens or more",
            tokens=len(ids),
        )
    _note_unknown(tokenizer, bare)
    context, stride = _sizes(scorer, len(ids), context, stride)
    row, nats, count = torch.tensor(ids), [], 0
    for batch in _batches(windows(len(ids), context, stride), max(TOKENS // context, 1)):
        rows = torch.stack([row[window.start : window.end + 1] for window in batch])  # (B, N + 1)
        nats.append(scorer.next_tokens(rows, batch[0].end + 1 - batch[0].first).flatten())
        count += len(batch)
        if progress is not None:
            progress(batch[-1].end, len(ids) - 1)
    return TextScore(torch.cat(nats).numpy(), _spelled(tokenizer, text, ids), tuple(ids), context, stride, count)


def _sizes(scorer: Scorer, tokens: int, context: int | None, stride: int | None) -> tuple[int, int]:
    """Return the checked context and stride, with their defaults filled in."""
    context = scorer.context or DEFAULT_CONTEXT if context is None else context
    if context < 1:
        raise Problem("{option} is {value}: give {wanted}", option="context", value=context, wanted="1, 2, 3, …")
    stride = max(context // 2, 1) if stride is None else stride
    if not 1 <= stride <= context:
        raise Problem(
            "the stride is {stride} and the context {context}: give 1 to {context}, or tokens between two windows would "
            "never be scored",
            stride=stride,
            context=context,
        )
    read, most = min(context, tokens - 1), scorer.context
    if most is not None and read > most and scorer.bounded:
        raise Problem("the context is {context}, but this model learned {most} positions", context=context, most=most)
    if most is not None and read > most:
        warnings.warn(
            Notice(
                "a window has {tokens} tokens and the model's context is {context}: the numbers are what the model "
                "computes, but it never learned texts that long",
                tokens=read,
                context=most,
            ),
            stacklevel=3,
        )
    return context, stride


def _batches(all_: Iterator[Window], rows: int) -> Iterator[list[Window]]:
    """Yield batches of at most `rows` consecutive windows of equal shape, which need no padding."""
    for _, alike in groupby(all_, key=lambda window: (window.end - window.start, window.end - window.first)):
        several = list(alike)
        yield from (several[i : i + rows] for i in range(0, len(several), rows))


def _spelled(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> int:
    """Return the bytes of a text without its unscored first token, unless the tokenizer added that token."""
    raw = text.encode()
    if ids[0] in tokenizer.special_ids:
        return len(raw)
    first = tokenizer.token_bytes(ids[:1])[0]
    first = first if raw.startswith(first) else first.removeprefix(b" ")  # SentencePiece begins every text with one
    return len(raw) - (len(first) if raw.startswith(first) else 0)


def _note_unknown(tokenizer: Tokenizer, ids: Sequence[int]) -> None:
    if unknown := sum(i == tokenizer.unk for i in ids):
        warnings.warn(
            Notice(
                "{unknown} of {tokens} tokens are unknown to the tokenizer, which loses what they spell: the model is "
                "measured on less than the text",
                unknown=unknown,
                tokens=len(ids),
            ),
            stacklevel=3,
        )


@dataclass(frozen=True)
class ScoredPair:
    """A pair: source, reference, the model's translation, and the loss of each token of the reference and its end."""

    line: int  # in its file, from 1
    source: str
    target: str
    translation: str
    nats: np.ndarray
    cut: bool = False  # stopped at the length limit

    @property
    def loss(self) -> float:
        """Nats per token."""
        return float(self.nats.mean())


@dataclass(frozen=True)
class Metric:
    """A score of sacrebleu with its signature, which says how it was computed."""

    score: float
    signature: str


@dataclass(frozen=True)
class PairScore(Losses):
    """Scored pairs in their order, and the lines that couldn't be scored with the reason."""

    pairs: tuple[ScoredPair, ...]
    problems: tuple[tuple[int, Problem], ...]
    bleu: Metric | None  # None where sacrebleu isn't installed
    chrf: Metric | None

    @property
    def exact(self) -> float:
        """Share of pairs whose translation equals the reference."""
        return sum(pair.translation.strip() == pair.target.strip() for pair in self.pairs) / len(self.pairs)

    @property
    def cut(self) -> int:
        """Number of translations that stopped at the length limit."""
        return sum(pair.cut for pair in self.pairs)


def score_pairs(
    model: object,
    tokenizer: Tokenizer,
    pairs: Sequence[tuple[int, str, str]],
    *,
    width: int | None = None,
    most: int = 128,
    progress: Progress | None = None,
) -> PairScore:
    """Score an encoder-decoder on pairs (line, source, target).

    `width` and `most` are as in `translate`. Pairs that the model can't read are skipped and listed in `problems`.

    >>> import qkv
    >>> from importlib.resources import files
    >>> model, tokenizer = qkv.load(str(files("qkv") / "demo" / "dates"))
    >>> pairs = [(1, "15 Nov 2026", "2026-11-15"), (2, "2026年11月15日", "2026-11-15"), (3, "May 4, 2026", "2026-05-05")]
    >>> score = score_pairs(model, tokenizer, pairs)
    >>> [pair.translation for pair in score.pairs], round(score.exact, 3)
    (['2026-11-15', '2026-11-15', '2026-05-04'], 0.667)
    """
    scorer = scorer_of(model)
    if scorer.kind != "encoder-decoder":
        raise Problem(
            "this model is of kind {kind} and doesn't map one text to another: pairs are for encoder-decoders; for a "
            "decoder give --text",
            kind=scorer.kind,
        )
    readable: list[_TokenPair] = []
    problems: list[tuple[int, Problem]] = []
    for line, source, target in pairs:
        try:
            readable.append(_tokenize_pair(scorer, tokenizer, line, source, target))
        except Problem as problem:
            problems.append((line, problem))
    if not readable:
        if problems:
            first, why = problems[0]
            raise Problem("line {line}: {problem}", line=first, problem=why)
        raise Problem("there are no pairs: give at least one (source, target)")
    # A translation that ended by itself has fewer tokens: its end token is not counted, unless that was forced.
    full = most if scorer.context is None or not scorer.bounded else min(most, scorer.context)
    full -= bool(tokenizer.habits.forced_eos_token_id)

    def answer(batch: list[_TokenPair]) -> list[ScoredPair]:
        sources = [each.source_ids for each in batch]
        nats = scorer.targets(sources, [each.target_ids for each in batch], tokenizer)
        translation = scorer.translations(sources, tokenizer, width, most)
        return [
            ScoredPair(each.line, each.source, each.target, tokenizer.decode(ids), cost.numpy(), len(ids) >= full)
            for each, ids, cost in zip(batch, translation, nats, strict=True)
        ]

    scored = tuple(in_batches(readable, lambda each: len(each.source_ids) + len(each.target_ids), answer, progress))
    bleu, chrf = metrics([pair.translation for pair in scored], [pair.target for pair in scored])
    nats = np.concatenate([pair.nats for pair in scored])
    n_bytes = sum(len(pair.target.encode()) for pair in scored)
    return PairScore(nats, n_bytes, scored, tuple(problems), bleu, chrf)


class _TokenPair(NamedTuple):
    line: int
    source: str
    target: str
    source_ids: list[int]
    target_ids: list[int]


def _tokenize_pair(scorer: Scorer, tokenizer: Tokenizer, line: int, source: str, target: str) -> _TokenPair:
    """Return the tokens of a pair, or raise a Problem if they exceed the learned positions."""
    source_tokens, target_tokens = source_ids(tokenizer, source), tokenizer.encode_target(target)
    longest = max(len(source_tokens), len(target_tokens) + 1)
    if scorer.bounded and scorer.context is not None and longest > scorer.context:
        raise Problem(
            "the text has {tokens} tokens and this model learned {context} positions: shorten it",
            tokens=longest,
            context=scorer.context,
        )
    return _TokenPair(line, source, target, source_tokens, target_tokens)


def metrics(translations: Sequence[str], references: Sequence[str]) -> tuple[Metric, Metric] | tuple[None, None]:
    """Return sacrebleu's BLEU and chrF of translations against references, or (None, None) if it isn't installed.

    BLEU compares words, and Chinese has no spaces between them: if most letters of the references are 汉字, each counts as a word.

    >>> bleu, chrf = metrics(["the cat sat on a mat"], ["the cat sat on the mat"])
    >>> round(bleu.score, 2), round(chrf.score, 2), bleu.signature.split("|")[3]
    (53.73, 65.98, 'tok:13a')
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        return None, None
    letters = [letter for text in references for letter in text if letter.isalpha()]
    chinese = sum(HAN.match(letter) is not None for letter in letters) > len(letters) / 2
    scores = []
    for metric in (BLEU(tokenize="zh" if chinese else "13a"), CHRF()):
        score = metric.corpus_score(list(translations), [list(references)])
        scores.append(Metric(score.score, str(metric.get_signature())))
    return scores[0], scores[1]


def without_metrics() -> Notice | None:
    """Return a notice that BLEU and chrF will be missing, or None if sacrebleu is installed."""
    try:
        import sacrebleu  # noqa: F401
    except ImportError:
        return Notice(
            "BLEU and chrF need sacrebleu and are left out; to have them: {command}", command=pip_install("sacrebleu")
        )
    return None
