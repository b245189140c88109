"""Sentence pairs for translation: read from TSV, batched by similar length, a function of (seed, step).

Legend: B batch, N source tokens, M target tokens, both of the longest in the batch.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..i18n import Listed, Message, Problem, _, quoted
from .length_batches import Pools
from .tokenizer import Tokenizer

Text = tuple[str, str]
Numbered = tuple[int, str, str]  # line number from 1, source, target


class PairBatch(NamedTuple):
    """Padded ids (int64). The decoder reads `target_in` = bos y… and should predict `target_out` = y… eos.

    >>> from .tokenizer import Characters
    >>> tokenizer = Characters.make("abc", special=["pad", "bos", "eos"])
    >>> batch = Pairs([("ab", "ba"), ("abc", "cba")], tokenizer).batch(seed=0, step=0, batch=2)
    >>> batch.source.shape, sorted(batch.source_lengths.tolist())
    ((2, 4), [3, 4])
    """

    source: np.ndarray  # (B, N)
    source_lengths: np.ndarray  # (B,)
    target_in: np.ndarray  # (B, M)
    target_out: np.ndarray  # (B, M)
    target_lengths: np.ndarray  # (B,)


def read_pairs(path: str | Path, columns: tuple[int, int] = (0, 1)) -> list[Text]:
    r"""Return the (source, target) sentences of a UTF-8 file with a pair per line, separated by a TAB.

    `columns` are their columns, counted from 0: (1, 0) is the other direction. Blank lines are skipped.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "pairs.tsv")
    ...     _ = file.write_text("good\t好\nday\t日\n", encoding="utf-8")
    ...     print(read_pairs(file), read_pairs(file, columns=(1, 0)))
    [('good', '好'), ('day', '日')] [('好', 'good'), ('日', 'day')]
    """
    pairs = [_pair(line, columns, number, Path(path)) for number, line in lines(Path(path))]
    if not pairs:
        raise Problem("{path} has no pairs: put one on each line, source TAB target", path=path)
    return pairs


def sift_pairs(path: str | Path) -> tuple[list[Numbered], list[tuple[int, Problem]]]:
    r"""Return (pairs, problems), each with line numbers: lines that aren't pairs become problems.

    The most frequent number of columns is expected; of more than two, the first two are the pair.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "pairs.tsv")
    ...     _ = file.write_text("good\t好\nday\nbad\t坏\n", encoding="utf-8")
    ...     pairs, problems = sift_pairs(file)
    >>> pairs
    [(1, 'good', '好'), (3, 'bad', '坏')]
    >>> [(line, str(problem)) for line, problem in problems]
    [(2, "the number of columns is 1, not 2: 'day'")]
    """
    path = Path(path)
    all_lines = list(lines(path))
    counts = Counter(line.count("\t") + 1 for _, line in all_lines)
    n_columns = max((n for n in counts if n > 1), key=lambda n: counts[n], default=2)
    pairs: list[Numbered] = []
    problems: list[tuple[int, Problem]] = []
    for number, line in all_lines:
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != n_columns:
            sentence = _("the number of columns is {columns}, not {wanted}: {line}")
        elif not (cells[0] and cells[1]):
            sentence = _("the source or the target is empty: {line}")
        else:
            pairs.append((number, cells[0], cells[1]))
            continue
        problems.append((number, Problem(sentence, columns=len(cells), wanted=n_columns, line=repr(line[:40]))))
    if not pairs:
        raise Problem("{path} has no pairs: put one on each line, source TAB target", path=path)
    return pairs, problems


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the non-blank lines of a file with their numbers."""
    if not os.path.isfile(path):  # Path.is_file raises if the name is too long
        raise Problem("there is no file {path}: a pairs file has one pair per line, source TAB target", path=path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise Problem("{path} is not UTF-8 (byte {at}): save it as UTF-8 text", path=path, at=error.start) from None
    except (OSError, MemoryError) as error:
        raise Problem("{file} can't be read: {error}", file=path, error=quoted(error)) from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")


def as_tsv(pairs: Sequence[Text]) -> str:
    r"""Return pairs as TSV, the inverse of `read_pairs`.

    >>> as_tsv([("good", "好"), ("day", "日")])
    'good\t好\nday\t日\n'
    """
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def _pair(line: str, columns: tuple[int, int], number: int, path: Path) -> Text:
    cells = [cell.strip() for cell in line.split("\t")]
    where = {"number": number, "path": path}
    for name, column in zip((Message("source"), Message("target")), columns, strict=True):
        if column >= len(cells):
            other = len(cells) == 1 and any(letter in line for letter in ",;|")
            hint = Message("; it has no TAB, only other separators") if other else ""
            count = Message("1 is") if len(cells) == 1 else Message("{n} are", n=len(cells))
            details = {"there": count, "line": repr(line[:40]), "hint": hint}
            raise Problem(
                "line {number} of {path} has no {name} column: column {column} is missing, {there} "
                "there ({line}){hint}; write source TAB target",
                **where,
                name=name,
                column=column + 1,
                **details,
            )
        if not cells[column]:
            raise Problem(
                "line {number} of {path} has an empty {name}: fill column {column} or remove the line",
                **where,
                name=name,
                column=column + 1,
            )
    return cells[columns[0]], cells[columns[1]]


def split_pairs(pairs: Sequence[Text], validation: float = 0.1) -> tuple[list[Text], list[Text]]:
    """Return (train, validation), split by source sentence, so that its translations stay together.

    The order of the file does not matter.

    >>> train, validation = split_pairs([("a", "1"), ("a", "2"), ("b", "3"), ("c", "4")], validation=0.34)
    >>> train, validation
    ([('a', '1'), ('a', '2'), ('b', '3')], [('c', '4')])
    """
    sources = sorted({source for source, _ in pairs}, key=lambda source: hashlib.sha256(source.encode()).digest())
    validation_sources = set(sources[: round(len(sources) * validation)])
    return [pair for pair in pairs if pair[0] not in validation_sources], [
        pair for pair in pairs if pair[0] in validation_sources
    ]


class Pairs:
    """Encoded sentence pairs in batches of similar length, a pure function of (seed, step): see `Pools`.

    >>> from .tokenizer import Characters
    >>> tokenizer = Characters.make("abc", special=["pad", "bos", "eos"])
    >>> pairs = Pairs([("ab", "ba"), ("abc", "cba"), ("c", "c")], tokenizer)
    >>> len(pairs), pairs.longest, pairs.batch(seed=0, step=0, batch=2).source.shape[0]
    (3, 4, 2)
    >>> [tokenizer.decode(row) for batch in pairs.batches(batch=3) for row in batch.source]
    ['c', 'ab', 'abc']
    """

    def __init__(self, pairs: Sequence[Text], tokenizer: Tokenizer, target_tokenizer: Tokenizer | None = None) -> None:
        if not pairs:
            raise Problem("there are no pairs to learn from: give at least one (source, target)")
        self.tokenizer, self.target_tokenizer = tokenizer, target_tokenizer or tokenizer
        pad_pairs([], [], self.tokenizer, self.target_tokenizer)  # refuses a tokenizer that lacks what pairs need
        self.sources = self.tokenizer.encode_batch([source for source, _ in pairs])
        cutter = target_tokenizer or tokenizer.target or tokenizer  # same ids, other pieces
        self.targets = cutter.encode_batch([target for _, target in pairs])
        self.pools = Pools([len(s) + len(t) for s, t in zip(self.sources, self.targets, strict=True)])

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def longest(self) -> int:
        """Tokens of the longest sentence, special tokens included."""
        source = max(self.sources, key=len)
        return max(len(_framed(self.tokenizer, source)), max(map(len, self.targets)) + 1)

    def batch(self, seed: int, step: int, batch: int) -> PairBatch:
        """Return batch number `step`, counted across epochs."""
        return self._take(self.pools.batch(seed, step, batch))

    def batches(self, batch: int) -> Iterator[PairBatch]:
        """Return batches with every pair once, in order of length, for evaluation."""
        return map(self._take, self.pools.in_order(batch))

    def _take(self, indices: np.ndarray) -> PairBatch:
        ids = indices.tolist()
        return pad_pairs(
            [self.sources[i] for i in ids], [self.targets[i] for i in ids], self.tokenizer, self.target_tokenizer
        )


class PairStream:
    """An endless stream of generated pairs: `make(seed, index)` returns the texts of a pair.

    >>> from .tokenizer import Characters
    >>> tokenizer = Characters.make("0123456789", special=["pad", "bos", "eos"])
    >>> stream = PairStream(lambda seed, index: (str(index), str(index)[::-1]), tokenizer)
    >>> batch = stream.batch(seed=0, step=4, batch=3)
    >>> [(tokenizer.decode(a), tokenizer.decode(b)) for a, b in zip(batch.source, batch.target_out, strict=True)]
    [('12', '21'), ('13', '31'), ('14', '41')]
    >>> stream.longest
    4
    """

    def __init__(self, make: Callable[[int, int], Text], tokenizer: Tokenizer) -> None:
        pad_pairs([], [], tokenizer, tokenizer)  # refuses a tokenizer that lacks what pairs need
        self.make, self.tokenizer = make, tokenizer

    @property
    def longest(self) -> int:
        """Tokens of the longest sentence among the first thousand, special tokens included."""
        batch = self.batch(0, 0, 1000)
        return max(batch.source.shape[1], batch.target_in.shape[1])

    def batch(self, seed: int, step: int, batch: int) -> PairBatch:
        """Return the pairs step·batch … (step + 1)·batch − 1 of the stream of `seed`."""
        pairs = [self.make(seed, index) for index in range(step * batch, (step + 1) * batch)]
        sources, targets = (self.tokenizer.encode_batch(texts) for texts in zip(*pairs, strict=True))
        return pad_pairs(sources, targets, self.tokenizer, self.tokenizer)


def pad_pairs(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
) -> PairBatch:
    """Return rows of ids as padded arrays with their lengths; sources end with eos too, so that none is empty."""
    source_pad, _ = special(tokenizer, "pad", "eos")
    target_pad, eos = special(target_tokenizer, "pad", "eos")
    start = special(target_tokenizer, "bos")[0] if target_tokenizer.start is None else target_tokenizer.start
    source, source_lengths = pad([_framed(tokenizer, ids) for ids in sources], source_pad)
    target_in, target_lengths = pad([[start, *ids] for ids in targets], target_pad)
    target_out, _ = pad([[*ids, eos] for ids in targets], target_pad)
    return PairBatch(source, source_lengths, target_in, target_out, target_lengths)


def _framed(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """Return a source with the tokenizer's special tokens around it, ending with eos."""
    framed = tokenizer.frame(ids)
    return framed if framed[-1:] == [tokenizer.eos] else [*framed, *special(tokenizer, "eos")]


def pad(rows: Sequence[Sequence[int]], pad: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of different lengths as an array padded with `pad`, and their lengths.

    >>> pad([[1, 2, 3], [4]], 0)[0].tolist()
    [[1, 2, 3], [4, 0, 0]]
    """
    lengths = np.array([len(row) for row in rows])
    array = np.full((len(rows), int(lengths.max(initial=0))), pad, dtype=np.int64)
    array[np.arange(array.shape[1]) < lengths[:, None]] = [i for row in rows for i in row]
    return array, lengths


def special(tokenizer: Tokenizer, *roles: str) -> list[int]:
    """Return the ids of special tokens by role; raise if the tokenizer lacks one."""
    ids = {role: getattr(tokenizer, role) for role in roles}
    missing = [role for role, i in ids.items() if i is None]
    if missing:
        raise Problem(
            'the tokenizer has no {missing} token, which sentence pairs need: make it with special=("pad", "bos", '
            '"eos", "unk")',
            missing=Listed(missing, _(" and no ")),
        )
    return list(ids.values())
