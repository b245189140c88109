"""Bounds-checked reading of binary files: every length is checked against the file size before it is used."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

from ..i18n import Message, Problem, quoted


def broken(why: str, file: Path, /, **values: object) -> Problem:
    """Return the Problem for an unusable file; `why` is a translatable sentence with its values."""
    return Problem("{file} can't be used: {why}", file=file, why=Message(why, **values))


def map_file(file: Path) -> np.ndarray:
    """Map a file into memory, copy-on-write: pages are read on access and changes never reach the file."""
    try:
        if file.stat().st_size == 0:
            raise broken("it is empty", file)
        return np.memmap(file, dtype=np.uint8, mode="c")
    except OSError as error:
        raise Problem("{file} can't be read: {error}", file=file, error=quoted(error)) from None


class Cursor:
    """A position in a file's bytes that advances as little-endian numbers and strings are read."""

    def __init__(self, file: Path, raw: np.ndarray) -> None:
        self.file, self.raw, self.position = file, raw.data, 0

    @property
    def remaining(self) -> int:
        """The number of bytes left."""
        return len(self.raw) - self.position

    def require(self, count: int, size: int = 1) -> None:
        """Raise Problem if fewer than `count` × `size` bytes remain."""
        if count * size > self.remaining:
            raise broken(
                "byte {at} promises {count} × {each} bytes and only {left} follow: it was cut short or damaged; get "
                "it again",
                self.file,
                at=self.position,
                count=count,
                each=size,
                left=self.remaining,
            )

    def take(self, count: int) -> memoryview:
        """Return the next bytes."""
        self.require(count)
        self.position += count
        return self.raw[self.position - count : self.position]

    def number(self, code: str) -> Any:
        """Return the next number; `code` is its struct format character."""
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self, length: int) -> str:
        """Return the next string. Invalid UTF-8 is kept by surrogate escapes: some vocabularies contain partial
        characters."""
        return str(self.take(length), "utf-8", "surrogateescape")
