"""How numbers travel, from the worker through the web process to the browser: a sequence of frames.

A frame is a length, so much JSON, then arrays one after another; the JSON's `buffers` tells their types and shapes. The web
process hands frames on as they are, without NumPy, which it would wait for when it starts: between it and the worker each
stands in an envelope that says whose answer it is.
"""

from __future__ import annotations

import json
import struct
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Fields = dict[str, Any]  # the JSON of a frame, of a request or of an event
LENGTH = struct.Struct("<I")
ENVELOPE = struct.Struct("<QBI")  # which ask, is it the last frame, bytes of the frame
LAST, MORE = 1, 0
TYPES = {"float32": "f4", "uint8": "u1", "int32": "i4"}


def frame(told: Fields, *arrays: np.ndarray) -> bytes:
    r"""One frame.

    >>> import numpy as np
    >>> frame({"kind": "tile"}, np.uint8([[1, 2]]))
    b'8\x00\x00\x00{"kind":"tile","buffers":[{"dtype":"u1","shape":[1,2]}]}\x01\x02'
    """
    buffers = [{"dtype": TYPES[array.dtype.name], "shape": list(array.shape)} for array in arrays]
    text = json.dumps(told | {"buffers": buffers}, ensure_ascii=False, separators=(",", ":")).encode()
    little = (array.astype(array.dtype.newbyteorder("<"), copy=False) for array in arrays)
    return b"".join([LENGTH.pack(len(text)), text, *(array.tobytes() for array in little)])


def write_envelope(pipe: IO[bytes], ask: int, last: int, content: bytes) -> None:
    """To the web process."""
    pipe.write(ENVELOPE.pack(ask, last, len(content)) + content)
    pipe.flush()


def write_request(told: Fields) -> bytes:
    """To the worker: a length and JSON."""
    text = json.dumps(told, ensure_ascii=False).encode()
    return LENGTH.pack(len(text)) + text


def read_request(pipe: IO[bytes]) -> Fields | None:
    """From the web process; None when it is gone."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    text = pipe.read(LENGTH.unpack(head)[0])
    return json.loads(text)
