"""Learn a tokenizer from a corpus, and choose the kind for the size of the corpus."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from tokenizers import models, pre_tokenizers, trainers

from ..i18n import Problem, all_of
from .library_tokenizer import add_special, byte_level
from .tokenizer import BPE, Bytes, Characters, Tokenizer

KINDS = ("characters", "bytes", "bpe")
SMALL = 4_000_000  # characters; in smaller texts the pieces of a learned vocabulary are too rare
ENOUGH = 200_000_000  # characters; BPE learns from the first so many
MANY = 1000  # different characters: more than an alphabet, as in Chinese, Japanese or Korean
WIDE = 1.5  # bytes per character above which bytes take too much context; a 汉字 has 3, so a quarter are 汉字
EVERYDAY = ("pad", "bos", "eos", "mask")


class Choice(NamedTuple):
    """A kind of tokenizer, the size of its vocabulary (None: given by the text), and the reason."""

    kind: str
    vocab: int | None
    why: str


def choose(texts: Iterable[str]) -> Choice:
    """Choose the kind of tokenizer for a corpus.

    >>> choose(["to be or not to be"]).kind
    'characters'
    """
    size, written, alphabet = 0, 0, set[str]()
    for text in texts:
        size += len(text)
        if size <= SMALL:
            alphabet.update(text)
            written += len(text.encode(errors="replace"))
    if size > SMALL:
        # A power of two that leaves each token some thousand occurrences.
        vocab = max(2048, min(32768, 1 << (size // 3000).bit_length()))
        return Choice("bpe", vocab, f"bpe with {vocab} pieces: {_counted(size)} are enough to learn whole words from")
    many = len(alphabet) > MANY
    often = 4 if written >= WIDE * size else 50  # minimum mean number of occurrences of a character
    if many and len(alphabet) > size / often:
        rare = f"{len(alphabet)} different ones in {_counted(size)} are too rare to learn one by one"
        return Choice("bytes", None, f"bytes rather than characters: {rare}")
    why = f"characters, {len(alphabet)} different ones: {_counted(size)} are too few to learn whole words from"
    if many:
        why += f", and as bytes they would be {written:,} tokens"
    return Choice("characters", None, why)


def reason(asked: str, tokenizer: Tokenizer) -> str:
    """Return why a run has this tokenizer: a key of `REASONS` in train/run.py.

    >>> reason("auto", Characters.make("ab")), reason("bytes", Bytes.make())
    ('why.characters', 'why.asked')
    """
    if asked != "auto":
        return "why.asked"
    return "why.many" if tokenizer.kind == "characters" and tokenizer.vocab > MANY else f"why.{tokenizer.kind}"


def train_tokenizer(
    kind: str,
    texts: Iterable[str],
    *,
    vocab: int | None = None,
    special: Iterable[str] = EVERYDAY,
) -> Tokenizer:
    """Learn a tokenizer of a kind (characters, bytes, bpe, or auto) from texts; deterministic.

    `vocab` includes the special tokens and is for bpe (default 8,192). `special` lists the roles of the special tokens;
    without "unk", characters that are not in `texts` can't be encoded. `.why` is the reason for the choice of "auto".

    >>> tokenizer = train_tokenizer("characters", ["人工智能", "artificial"])
    >>> tokenizer.decode(tokenizer.encode("人 art".replace(" ", "")))
    '人art'
    """
    why = f"{kind}, as asked"
    if kind == "auto":
        if isinstance(texts, Iterator):
            raise Problem('"auto" reads the text twice: give a list or a Corpus, not an iterator that is used up')
        kind, choice, why = choose(texts)
        vocab = (vocab or choice) if kind == "bpe" else None
    if kind not in KINDS:
        raise Problem(
            "there is no tokenizer {kind}: choose from {kinds}, or auto", kind=repr(kind), kinds=all_of(KINDS)
        )
    if vocab is not None and kind != "bpe":
        raise Problem(
            "vocab={vocab} is for bpe: the vocabulary of {kind} comes from the {kind} themselves",
            vocab=vocab,
            kind=kind,
        )
    if kind == "bytes":
        return Bytes.make(special, why)
    if kind == "characters":
        return Characters.make(texts, special, why)
    return _train_bpe(texts, 8192 if vocab is None else vocab, list(special), why)


def _train_bpe(texts: Iterable[str], vocab: int, special: list[str], why: str) -> BPE:
    least = 256 + len(special)
    if vocab < least:
        raise Problem(
            "vocab={vocab} is too small for bpe: 256 bytes and {special} special tokens need {least}",
            vocab=vocab,
            special=len(special),
            least=least,
        )
    texts = iter(texts)
    first = next(texts, None)
    if first is None:
        raise Problem("there is no text to learn from: bpe counts which pieces are frequent in it")
    trainer = trainers.BpeTrainer(
        vocab_size=vocab - len(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    library = byte_level(models.BPE())
    library.train_from_iterator(_at_most(ENOUGH, chain([first], texts)), trainer)
    return BPE(library, add_special(library, special, words=True), why)


def _at_most(limit: int, texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        if limit <= 0:
            return
        limit -= len(text)
        yield text


def _counted(size: int) -> str:
    return f"{size:,} characters" if size < 1_000_000 else f"{size / 1e6:.1f} million characters"
