"""Reading of untrusted files, with limits on size, depth and names.

`key` is the sentence of the Problem that is raised; it has {file} and the reason as {why} or {error}.
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..i18n import Message, Problem, quoted

JsonObject = dict[str, Any]  # a JSON object from an untrusted file, not validated

MAX_BYTES = 1 << 30  # bytes of a file that is read whole; the largest tokenizers have 40 million
MAX_DEPTH = 100  # brackets within brackets of a JSON text
MAX_NAME_BYTES = 255  # bytes of a file's name, on all common systems
# Exceptions that malformed values can cause in code that reads them.
MALFORMED = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError)


def read_text(file: Path, key: str) -> str:
    """Return the text of a regular file in UTF-8 of at most MAX_BYTES. Devices and pipes, which may have no end, are refused."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise unusable_file(file, key, Message("it is not a regular file"))
        if status.st_size > MAX_BYTES:
            raise unusable_file(file, key, Message("it has {st_size:,} bytes", st_size=status.st_size))
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        why = Message("byte {start} is not UTF-8", start=error.start)
        raise unusable_file(file, key, why) from None
    except (OSError, MemoryError) as error:
        raise unusable_file(file, key, quoted(error)) from None


def read_json(file: Path, key: str) -> Any:
    """Return the value of a JSON file; see `parse_json`."""
    text = read_text(file, key)
    try:
        return parse_json(text)
    except Problem as problem:
        raise unusable_file(file, key, problem) from None


def parse_json(text: str) -> Any:
    """Parse JSON; refuse lone surrogates and more than MAX_DEPTH nested brackets.

    >>> parse_json("[" * 1000 + "]" * 1000)
    Traceback (most recent call last):
    qkv.i18n.Problem: its brackets are nested more than 100 deep
    """
    try:
        value = json.loads(text)
        if re.search(r"\\u[dD][89a-fA-F]", text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Problem("it holds half a character (a lone surrogate)") from None
    except RecursionError:
        raise Problem("its brackets are nested more than {most} deep", most=MAX_DEPTH) from None
    except (ValueError, MemoryError) as error:
        words = quoted(error)
        raise Problem(words.sentence, words.values) from None
    level = [value]
    for _depth in range(MAX_DEPTH):
        inner = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return value
    raise Problem("its brackets are nested more than {most} deep", most=MAX_DEPTH)


def read_table(file: Path, key: str) -> JsonObject:
    """Return the object in a JSON file; refuse any other value."""
    table = read_json(file, key)
    if not isinstance(table, dict):
        raise unusable_file(file, key, Message("it is not a JSON object"))
    return table


@contextmanager
def reading(file: Path | None, key: str) -> Iterator[None]:
    """Raise every error in the block as the Problem `key`, with the reason.

    For libraries that raise bare Exceptions or, in Rust, panics, which are BaseExceptions. A Problem that already names
    its file is raised unchanged.
    """
    try:
        yield
    except Problem as problem:
        if file is None or "file" in problem.values:
            raise
        raise unusable_file(file, key, problem) from None
    except Exception as error:
        raise unusable_file(file, key, quoted(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise unusable_file(file, key, quoted(Exception(str(error)))) from None


def is_plain(name: object, depth: int = 1) -> bool:
    """True if a name is a relative path of at most `depth` parts that doesn't leave its folder.

    >>> [is_plain(name) for name in ("model.safetensors", "../x", "/dev/zero", "a/b", "C:x", "", "..")]
    [True, False, False, False, False, False, False]
    """
    if not isinstance(name, str) or any(sign in name for sign in "\\:\0"):
        return False
    parts = name.split("/")
    short = all(len(part.encode("utf-8", "replace")) <= MAX_NAME_BYTES for part in parts[: depth + 1])
    return len(parts) <= depth and short and not any(part in ("", ".", "..") for part in parts)


def unusable_file(file: Path | None, key: str, why: object) -> Problem:
    """Return the Problem of a file that can't be used."""
    return Problem(key, file=file, why=why, error=why)


def folder_size(folder: Path) -> int:
    """Return the total size of the files below a folder in bytes; files that vanish meanwhile are skipped."""
    total = 0
    for parent, _folders, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total
