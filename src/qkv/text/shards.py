"""Encode a corpus into shards of tokens on disk, as a stream: the corpus may be larger than memory.

A shard and its hashes are written atomically (temporary file, flush, rename) before index.json lists them, which is
written the same way. If the process is killed, the files in the index are complete, and work resumes after them.
"""

import errno
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..disk.atomic_files import atomic_write, write_file
from ..disk.bounded_reading import JsonObject
from ..i18n import Problem
from .corpus import Corpus, Position, TextBlock, pieces
from .dataset import BLOCK, FORMAT, HASHES, Dataset, read_index
from .tokenizer import Tokenizer

Progress = Callable[[int, int], None]
SHARD = 1 << 24  # tokens per shard: a killed process loses seconds of work


def prepare(
    source: str | Path | Corpus,
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    validation: float = 0.1,
    shard: int = SHARD,
    progress: Progress | None = None,
) -> Dataset:
    """Write the tokens of a corpus to a folder and open them; resume if the folder is incomplete.

    Documents are joined by the `eos` token if the tokenizer has one. `progress(done, total)` counts bytes of text.

    >>> from tempfile import TemporaryDirectory
    >>> from .tokenizer import Bytes
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("to be or not to be", encoding="utf-8")
    ...     tokens = prepare(folder, Bytes.make(), Path(folder, "tokens"), validation=0)
    ...     print(len(tokens), bytes(tokens[:5].tolist()))
    ...     del tokens
    18 b'to be'
    """
    corpus = source if isinstance(source, Corpus) else Corpus.of(source)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    cut = corpus.cut(validation)
    identity = {
        "format": FORMAT,
        "source": {"sha256": corpus.sha256(), "bytes": corpus.size, "documents": len(corpus.documents)},
        "tokenizer": {"sha256": hashlib.sha256(tokenizer.to_json().encode()).hexdigest(), "vocab": tokenizer.vocab},
        "dtype": "uint16" if tokenizer.vocab <= 1 << 16 else "uint32",
        "validation_from": list(cut),
        "tokens_per_shard": shard,
    }
    index = read_index(folder)
    if index is None or any(index.get(key) != value for key, value in identity.items()):
        index = {**identity, "complete": False, "at": list(corpus.start), "shards": []}
        _write_index(folder, index)
    if not index["complete"]:
        try:
            _fill(folder, index, corpus, tokenizer, cut, progress or (lambda done, total: None))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise Problem(
                "the disk of {folder} is full: what is written stays; free some space and prepare again to go on",
                folder=folder,
            ) from error
    return Dataset.open(folder)


def _fill(
    folder: Path, index: JsonObject, corpus: Corpus, tokenizer: Tokenizer, cut: Position, progress: Progress
) -> None:
    before = corpus.sizes_before()
    for split, first, last in (("train", corpus.start, cut), ("validation", cut, corpus.end)):
        while (at := max(tuple(index["at"]), first)) < last:
            name = f"{split}-{sum(shard['split'] == split for shard in index['shards']):05d}.bin"
            count, hashes = 0, BlockHashes()
            with atomic_write(folder / name) as file:
                for block in corpus.blocks(at, last):
                    document_start = corpus.documents[block.document].start
                    ids = _encode(block, tokenizer, joined=block.document > first[0] and block.start == document_start)
                    raw = ids.astype(index["dtype"]).tobytes()
                    file.write(raw)
                    hashes.add(raw)
                    count += len(ids)
                    progress(before[block.document] + block.end - document_start, corpus.size)
                    if count >= index["tokens_per_shard"]:
                        break
            index["at"] = list(corpus.normal(block.document, block.end))
            hash_lines = "".join(digest + "\n" for digest in hashes.finish()).encode()
            write_file(folder / (name + HASHES), hash_lines)
            record = {"file": name, "split": split, "tokens": count, "hashes": hashlib.sha256(hash_lines).hexdigest()}
            index["shards"].append(record)
            _write_index(folder, index)
    listed = {shard["file"] + ending for shard in index["shards"] for ending in ("", HASHES)}
    for path in (*folder.glob("train-*.bin*"), *folder.glob("validation-*.bin*")):
        if path.name not in listed:
            path.unlink()
    index["complete"] = True
    _write_index(folder, index)


class BlockHashes:
    """The sha256 of every block of a stream of bytes.

    >>> hashes = BlockHashes()
    >>> hashes.add(bytes(BLOCK - 1)), hashes.add(bytes(2)), len(hashes.finish())
    (None, None, 2)
    """

    def __init__(self) -> None:
        self.digests: list[str] = []
        self._rest = b""

    def add(self, raw: bytes) -> None:
        """Hash the next bytes."""
        raw = self._rest + raw
        whole = len(raw) // BLOCK * BLOCK
        self.digests += (hashlib.sha256(raw[at : at + BLOCK]).hexdigest() for at in range(0, whole, BLOCK))
        self._rest = raw[whole:]

    def finish(self) -> list[str]:
        """Return the hashes; the last block may be shorter."""
        if self._rest:
            self.digests.append(hashlib.sha256(self._rest).hexdigest())
        return self.digests


def _encode(block: TextBlock, tokenizer: Tokenizer, joined: bool) -> np.ndarray:
    ids = tokenizer.encode_array(pieces(block.text))
    return np.concatenate([[tokenizer.eos], ids]) if joined and tokenizer.eos is not None else ids


def _write_index(folder: Path, index: JsonObject) -> None:
    write_file(folder / "index.json", json.dumps(index, indent=2) + "\n")
