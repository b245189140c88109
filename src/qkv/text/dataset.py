"""Tokens on disk as one long array: memory-mapped shards, batches by (seed, step).

Each shard has a file with the sha256 of every 64 KiB; a block is verified when it is first read.

Legend: B batch, N context (tokens per row).
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np

from ..disk.bounded_reading import JsonObject, is_plain, read_json, read_text
from ..i18n import Message, Problem, _
from .seeded_rng import dice

FORMAT = "qkv tokens 1"
# Bytes per hash: about the read-ahead of a system, so that verifying a window reads little more than the window.
BLOCK = 1 << 16
HASHES = ".sha256"  # ending of the file with a shard's hashes
Batch = tuple[np.ndarray, np.ndarray]


class BlockCheck:
    """Verifies each block of a shard when it is first read."""

    def __init__(self, file: Path, array: np.ndarray, sha256: str) -> None:
        """Read the hashes of a shard's blocks; `sha256` is that of the file that lists them."""
        listing = file.with_name(file.name + HASHES)
        text = read_text(listing, _("{file} can't be read: {error}"))
        self.file, self.hashes = file, text.splitlines()
        if hashlib.sha256(text.encode()).hexdigest() != sha256 or len(self.hashes) != -(-array.nbytes // BLOCK):
            raise Problem(
                "{file} is damaged: it is not what was written. Put the file back from a copy, or remove {folder} and "
                "prepare the text again",
                file=listing,
                folder=listing.parent,
            )
        self.raw, self.itemsize = array.view(np.uint8).data, array.itemsize
        self.unread = bytearray(b"\1") * len(self.hashes)

    def __call__(self, first: int, last: int) -> None:
        """Verify the blocks of tokens[first:last]."""
        start, end = first * self.itemsize // BLOCK, (last * self.itemsize - 1) // BLOCK + 1
        while (number := self.unread.find(1, start, end)) >= 0:
            block = self.raw[number * BLOCK : (number + 1) * BLOCK]
            if hashlib.sha256(block).hexdigest() != self.hashes[number]:
                raise Problem(
                    "{file} is damaged: block {number} (bytes {first} to {last}) is not what was written. Put the "
                    "file back from a copy, or remove {folder} and prepare the text again",
                    file=self.file,
                    number=number,
                    first=number * BLOCK,
                    last=number * BLOCK + len(block) - 1,
                    folder=self.file.parent,
                )
            self.unread[number] = 0


class Shards:
    """Several arrays as one: `len`, and slices that may cross from one array to the next.

    >>> Shards([np.array([1, 2, 3]), np.array([4, 5])])[1:4]
    array([2, 3, 4])
    """

    def __init__(self, arrays: Sequence[np.ndarray], checks: Sequence[BlockCheck | None] = ()) -> None:
        self.arrays = [np.asarray(array) for array in arrays]  # a plain view of a memory map: cheaper to slice
        self.checks = [*checks] or [None] * len(arrays)
        self.starts = list(accumulate((len(array) for array in self.arrays), initial=0))

    def __len__(self) -> int:
        return self.starts[-1]

    def __getitem__(self, where: slice) -> np.ndarray:
        first, last, stride = where.indices(len(self))
        if stride != 1:
            raise Problem("slice tokens without a step, not with {stride}", stride=stride)
        number = bisect_right(self.starts, first) - 1
        if number < len(self.arrays) and last <= self.starts[number + 1]:  # nearly always within a shard
            return self._read(number, first - self.starts[number], max(last, first) - self.starts[number])
        parts = []
        while first < last:
            start, size = self.starts[number], len(self.arrays[number])
            parts.append(self._read(number, first - start, min(last - start, size)))
            first, number = start + size, number + 1
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def _read(self, number: int, first: int, last: int) -> np.ndarray:
        if (check := self.checks[number]) is not None and first < last:
            check(first, last)
        return self.arrays[number][first:last]

    def windows(self, starts: np.ndarray, length: int) -> np.ndarray:
        """Return the `length` tokens from each start as rows."""
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

    def __init__(
        self,
        train: Sequence[np.ndarray],
        validation: Sequence[np.ndarray],
        index: JsonObject,
        checks: Sequence[BlockCheck | None] = (),
    ) -> None:
        self.train, self.validation = Shards(train, checks[: len(train)]), Shards(validation, checks[len(train) :])
        self.all = Shards([*train, *validation], checks)
        self.index = index

    @classmethod
    def of(cls, train: Sequence[int] | np.ndarray, validation: Sequence[int] | np.ndarray = ()) -> "Dataset":
        """Return a dataset of tokens in memory.

        >>> Dataset.of([3, 1, 4], [1, 5])[:]
        array([3, 1, 4, 1, 5])
        """
        return cls([np.asarray(train, dtype=np.int64)], [np.asarray(validation, dtype=np.int64)], {})

    @classmethod
    def open(cls, folder: str | Path) -> "Dataset":
        """Open the tokens that `prepare` wrote; they are read on access.

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
            raise Problem("{folder} is incomplete: prepare it again to resume", folder=folder)
        parts: dict[str, list[np.ndarray]] = {"train": [], "validation": []}
        checks: dict[str, list[BlockCheck | None]] = {"train": [], "validation": []}
        for shard in index["shards"]:
            file = folder / shard["file"]
            array = _map(file, shard["tokens"], np.dtype(index["dtype"]))
            parts[shard["split"]].append(array)
            # Older indexes have no hashes.
            check = BlockCheck(file, array, shard["hashes"]) if "hashes" in shard else None
            checks[shard["split"]].append(check)
        return cls(parts["train"], parts["validation"], index, [*checks["train"], *checks["validation"]])

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, where: slice) -> np.ndarray:
        return self.all[where]

    def batch(self, seed: int, step: int, batch: int, context: int, split: str = "train") -> Batch:
        """Return random windows x and the next tokens y, both (B, N) int64.

        A pure function of (seed, step), so a resumed run needs only the number of its step.

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
        """Yield the same batches every time: `n` batches spread evenly over the text, or the whole text.

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
            hint = Message(", or use a shorter context: --context {most}", most=len(shards) - 1)
            raise Problem(
                "the {split} text has {n} tokens, but a context of {context} needs at least {least}: give more text{hint}",
                split=name,
                n=len(shards),
                context=context,
                least=context + 1,
                hint=hint if len(shards) > 1 else "",
            )
        return shards


def read_index(folder: Path) -> JsonObject | None:
    """Return the index of prepared tokens, None if there is none."""
    file = folder / "index.json"
    if not file.is_file():
        return None
    index = read_json(file, _("{file} can't be read as it should: {why}. Fetch or copy it again"))
    if not isinstance(index, dict) or index.get("format") != FORMAT or not _is_index(index):
        raise Problem(
            "{file} is not an index of {form}: choose another folder, or remove that file", file=file, form=FORMAT
        )
    return index


def _is_index(index: JsonObject) -> bool:
    """True if an index has the fields that `prepare` writes."""

    def is_shard(shard: object) -> bool:
        return (
            isinstance(shard, dict)
            and is_plain(shard.get("file"))
            and shard.get("split") in ("train", "validation")
            and type(shard.get("tokens")) is int
            and shard["tokens"] >= 0
            and isinstance(shard.get("hashes", ""), str)
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
    return np.memmap(file, dtype=dtype, mode="r") if tokens else np.zeros(0, dtype)  # an empty file can't be mapped
