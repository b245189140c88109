"""Tokens on disk, read as if they were one long array: memory-mapped shards, batches by (seed, step).

Legend: B batch, N context (tokens per row).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ..files import is_plain, read_json
from ..words import Message, Problem, _
from .dice import dice

FORMAT = "qkv tokens 1"
Batch = tuple[np.ndarray, np.ndarray]


class Shards:
    """Several arrays seen as one: `len`, and slices that may cross from one array to the next.

    >>> Shards([np.array([1, 2, 3]), np.array([4, 5])])[1:4]
    array([2, 3, 4])
    """

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays = [np.asarray(array) for array in arrays]  # a plain view of a memory map: cheaper to slice
        self.starts = list(accumulate((len(array) for array in self.arrays), initial=0))

    def __len__(self) -> int:
        return self.starts[-1]

    def __getitem__(self, where: slice) -> np.ndarray:
        first, last, stride = where.indices(len(self))
        if stride != 1:
            raise Problem("tokens come in one piece: slice without a step, not with {stride}", stride=stride)
        number = bisect_right(self.starts, first) - 1
        if number < len(self.arrays) and last <= self.starts[number + 1]:  # nearly always: all in one shard
            return self.arrays[number][first - self.starts[number] : max(last, first) - self.starts[number]]
        parts = []
        while first < last:
            start, array = self.starts[number], self.arrays[number]
            parts.append(array[first - start : last - start])
            first, number = start + len(array), number + 1
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def windows(self, starts: np.ndarray, length: int) -> np.ndarray:
        """The `length` tokens from each start, one row each."""
        rows = np.empty((len(starts), length), dtype=np.int64)  # (B, length)
        for row, start in enumerate(starts.tolist()):
            rows[row] = self[start : start + length]
        return rows


class Dataset:
    """The tokens of a corpus: `tokens[:]` is all of it, `.train` and `.validation` its two parts.

    >>> tokens = Dataset.of(range(1000), range(1000, 1100))
    >>> x, y = tokens.batch(seed=0, step=7, batch=2, context=5)
    >>> x.shape, bool((x[:, 1:] == y[:, :-1]).all())
    ((2, 5), True)
    """

    def __init__(self, train: Sequence[np.ndarray], validation: Sequence[np.ndarray], index: dict[str, Any]) -> None:
        self.train, self.validation = Shards(train), Shards(validation)
        self.all = Shards([*train, *validation])
        self.index = index

    @classmethod
    def of(cls, train: Sequence[int] | np.ndarray, validation: Sequence[int] | np.ndarray = ()) -> "Dataset":
        """Tokens that are in memory already.

        >>> Dataset.of([3, 1, 4], [1, 5])[:]
        array([3, 1, 4, 1, 5])
        """
        return cls([np.asarray(train, dtype=np.int64)], [np.asarray(validation, dtype=np.int64)], {})

    @classmethod
    def open(cls, folder: str | Path) -> "Dataset":
        """The tokens that `prepare` wrote; nothing is read until it is asked for.

        >>> from tempfile import TemporaryDirectory
        >>> from . import Bytes, prepare
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.txt").write_text("to be or not to be", encoding="utf-8")
        ...     _ = prepare(folder, Bytes.make(), Path(folder, "tokens"), validation=0.3)
        ...     tokens = Dataset.open(Path(folder, "tokens"))
        ...     print(len(tokens.train), len(tokens.validation), bytes(tokens[:5].tolist()))
        ...     del tokens
        12 6 b'to be'
        """
        folder = Path(folder)
        index = read_index(folder)
        if index is None:
            raise Problem(
                "{folder} has no index.json of prepared tokens: make it with `qkv data prepare`", folder=folder
            )
        if not index["complete"]:
            raise Problem("{folder} was not finished: prepare it again, it goes on where it stopped", folder=folder)
        parts: dict[str, list[np.ndarray]] = {"train": [], "validation": []}
        for shard in index["shards"]:
            parts[shard["split"]].append(_map(folder / shard["file"], shard["tokens"], np.dtype(index["dtype"])))
        return cls(parts["train"], parts["validation"], index)

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, where: slice) -> np.ndarray:
        return self.all[where]

    def batch(self, seed: int, step: int, batch: int, context: int, split: str = "train") -> Batch:
        """Random windows x and the tokens y that follow each of their tokens, both (B, N) int64.

        A pure function of (seed, step): a run that goes on at step 1000 needs no more than that number.

        >>> x, y = Dataset.of(range(100)).batch(seed=0, step=3, batch=1, context=4)
        >>> x.tolist(), y.tolist()
        ([[11, 12, 13, 14]], [[12, 13, 14, 15]])
        """
        shards = self._part(split, context)
        starts = dice(seed, step).integers(len(shards) - context, size=batch)
        rows = shards.windows(starts, context + 1)  # (B, N + 1)
        return rows[:, :-1], rows[:, 1:]

    def validation_batches(
        self, batch: int, context: int, n: int | None = None, split: str = "validation"
    ) -> Iterator[Batch]:
        """The same batches every time: `n` of them spread evenly over the text, or all of it side by side.

        >>> batches = Dataset.of([], range(9)).validation_batches(batch=2, context=4)
        >>> [x.tolist() for x, y in batches]
        [[[0, 1, 2, 3], [4, 5, 6, 7]]]
        """
        shards = self._part(split, context)
        last = len(shards) - context - 1
        if n is None:
            starts = np.arange(0, last + 1, context)
        else:
            starts = np.linspace(0, last, n * batch).astype(np.int64)
        for first in range(0, len(starts), batch):
            rows = shards.windows(starts[first : first + batch], context + 1)
            yield rows[:, :-1], rows[:, 1:]

    def _part(self, split: str, context: int) -> Shards:
        if split not in ("train", "validation"):
            raise Problem("there is no split {split!r}: choose train or validation", split=split)
        shards = self.train if split == "train" else self.validation
        if len(shards) <= context:
            name = Message(_("train") if split == "train" else _("validation"))
            key = (
                _(
                    "the {split} text has {n} tokens, but a context of {context} needs at least {least}: give more text, "
                    "or a context of at most {most}"
                )
                if len(shards) > 1
                else _(
                    "the {split} text has {n} tokens, but a context of {context} needs at least {least}: give more text"
                )
            )
            raise Problem(key, split=name, n=len(shards), context=context, least=context + 1, most=len(shards) - 1)
        return shards


def read_index(folder: Path) -> dict[str, Any] | None:
    """The index of prepared tokens, or None where there is none."""
    file = folder / "index.json"
    if not file.is_file():
        return None
    index = read_json(file, _("{file} can't be read as it should: {why}. Fetch or copy it again"))
    if not isinstance(index, dict) or index.get("format") != FORMAT or not _is_index(index):
        raise Problem(
            "{file} is not an index of {form}: choose another folder, or remove that file", file=file, form=FORMAT
        )
    return index


def _is_index(index: dict[str, Any]) -> bool:
    """Does it list shards as `prepare` does?"""

    def is_shard(shard: Any) -> bool:
        return (
            isinstance(shard, dict)
            and is_plain(shard.get("file"))
            and shard.get("split") in ("train", "validation")
            and type(shard.get("tokens")) is int
            and shard["tokens"] >= 0
        )

    shards = index.get("shards")
    return (
        type(index.get("complete")) is bool
        and index.get("dtype") in ("uint16", "uint32")
        and isinstance(shards, list)
        and all(map(is_shard, shards))
    )


def _map(file: Path, tokens: int, dtype: np.dtype) -> np.ndarray:
    size = file.stat().st_size if file.is_file() else 0
    if size != tokens * dtype.itemsize:
        raise Problem(
            "{file} should have {wanted} bytes and has {size}: remove the folder and prepare again",
            file=file,
            wanted=tokens * dtype.itemsize,
            size=size,
        )
    return np.memmap(file, dtype=dtype, mode="r") if tokens else np.zeros(0, dtype)  # nothing can't be mapped
