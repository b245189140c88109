"""A binary file read with bounds: no number in it is believed before the file is known to be long enough for it."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

from ..i18n import Message, Problem, quoted


def broken(why: str, file: Path, /, **values: object) -> Problem:
    """The sentence for a file that can't be what it says it is; `why` is a sentence too, with its values."""
    return Problem("{file} can't be used: {why}", file=file, why=Message(why, **values))


def map_file(file: Path) -> np.ndarray:
    """The bytes of a file, mapped into memory: read when looked at; what is written to them never reaches the file."""
    try:
        if file.stat().st_size == 0:
            raise broken("it is empty", file)
        return np.memmap(file, dtype=np.uint8, mode="c")
    except OSError as error:
        raise Problem("{file} can't be read: {error}", file=file, error=quoted(error)) from None


class Cursor:
    """A place in a file's bytes that moves on as numbers and texts are taken, all little-endian."""

    def __init__(self, file: Path, raw: np.ndarray) -> None:
        self.file, self.raw, self.position = file, raw.data, 0

    @property
    def remaining(self) -> int:
        """Bytes that are still to come."""
        return len(self.raw) - self.position

    def require(self, count: int, size: int = 1) -> None:
        """Refuse a count of things that the rest of the file can't hold."""
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
        """The next bytes."""
        self.require(count)
        self.position += count
        return self.raw[self.position - count : self.position]

    def number(self, code: str) -> Any:
        """The next number; `code` is struct's letter for it."""
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self, length: int) -> str:
        """The next text; bytes that are no UTF-8 stay as they are, as halves of characters in some vocabularies do."""
        return str(self.take(length), "utf-8", "surrogateescape")
