"""Matrices for `qkv steps --file`: q, k and v, or x and its weights, from a .json or .npz file."""

import difflib
import json
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..i18n import Problem, _, all_of

# Allowed keys in files with q, k, v and in files with x.
QKV_KEYS = ("q", "k", "v", "mask", "names", "memory_names")
X_KEYS = ("x", "w_q", "w_k", "w_v", "w_o", "memory", "mask", "names", "memory_names")


def read_matrices(file: str) -> dict[str, ArrayLike]:
    """Return the matrices of a .json or .npz file. Nothing is unpickled."""
    path = Path(file)
    if not file or not path.is_file():
        raise Problem("there is no file {file}", file=file or '""')
    tables = _read_json(path) if path.suffix.lower() == ".json" else _read_npz(path)
    if not ({"q", "k", "v"} <= tables.keys() or "x" in tables):
        raise Problem(
            "{file} holds {keys}; it needs q, k and v, or x with w_q, w_k and w_v (and w_o, memory, mask, names "
            "if wanted)",
            file=file,
            keys=all_of(tables) if tables else "{}",
        )
    allowed = X_KEYS if "x" in tables else QKV_KEYS
    for key in tables:
        if key not in allowed:
            near = difflib.get_close_matches(key.lower(), allowed, n=1)
            name = (
                _("{file} holds {key}, which is not used. Did you mean {near}? It may hold {keys}")
                if near
                else _("{file} holds {key}, which is not used: it may hold {keys}")
            )
            raise Problem(name, file=file, key=key or '""', keys=all_of(allowed), near="".join(near))
    return tables


def _read_json(path: Path) -> dict[str, ArrayLike]:
    try:
        tables = json.loads(path.read_text(encoding="utf-8-sig"))  # Notepad writes a byte order mark
    except json.JSONDecodeError as error:
        sentence = _("{file} can't be read: it is not JSON at line {line}, column {column}")
        raise Problem(sentence, file=path, line=error.lineno, column=error.colno) from None
    except UnicodeDecodeError:
        raise Problem("{file} can't be read: it is not text in UTF-8", file=path) from None
    except (RecursionError, ValueError):  # ValueError: a number of more than 4,300 digits
        raise Problem(
            "{file} can't be read: it is nested too deeply, or a number in it is too long", file=path
        ) from None
    if not isinstance(tables, dict):
        raise Problem('{file} can\'t be read: write {{"q": [[…]], "k": [[…]], "v": [[…]]}}', file=path)
    return tables


def _read_npz(path: Path) -> dict[str, ArrayLike]:
    with path.open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
        except MemoryError:
            raise
        except Exception:  # damaged archives raise various errors of zipfile, zlib and NumPy
            raise Problem(
                "{file} can't be read: it is damaged, or holds something other than arrays of numbers; write it with "
                "np.savez",
                file=path,
            ) from None


def mask_of(table: ArrayLike) -> NDArray[np.bool_]:
    """Return a mask as bool; files may hold 1 and 0."""
    try:
        mask = np.asarray(table)
    except ValueError:
        raise Problem(
            "{name} is not a matrix of numbers: give rows of equal length that hold nothing but numbers", name="mask"
        ) from None
    if mask.dtype == bool:
        return mask
    other = [value for value in mask.ravel().tolist() if value not in (0, 1)]
    if other:
        raise Problem(
            "the mask holds {value}: write 1 or true where a query may look, 0 or false where not", value=repr(other[0])
        )
    return mask == 1


def names_of(what: str, names: ArrayLike | None) -> list[str] | None:
    """Return one name per token, or None if there are no names."""
    if names is None:
        return None
    entries = names.tolist() if isinstance(names, np.ndarray) else names
    if not isinstance(entries, list) or any(isinstance(name, (list, dict)) for name in entries):
        excerpt = json.dumps(entries, ensure_ascii=False, default=str)[:60]
        raise Problem("{name} is {value}: give a list with one name per token", name=what, value=excerpt)
    return [str(name) for name in entries]


def shape_of(table: ArrayLike) -> tuple[int, ...]:
    """Return the shape; () if rows differ in length."""
    try:
        return np.shape(table)
    except ValueError:  # `steps` reports this
        return ()
