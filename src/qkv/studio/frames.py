"""Frames: how numbers travel from the worker through the web process to the browser.

A frame is a length, JSON of that length, then arrays; the JSON's `buffers` has their types and shapes. The web process forwards
frames unread, since importing NumPy would delay its start. Between it and the worker each frame is in an envelope with the
number of its request.
"""

from __future__ import annotations

import json
import struct
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Fields = dict[str, Any]  # the JSON of a frame, of a request or of an event
LENGTH = struct.Struct("<I")
ENVELOPE = struct.Struct("<QBI")  # number of the request, whether it is the last frame, bytes of the frame
LAST, MORE = 1, 0
TYPES = {"float32": "f4", "uint8": "u1", "int32": "i4"}


def frame(fields: Fields, *arrays: np.ndarray) -> bytes:
    r"""Return a frame.

    >>> import numpy as np
    >>> frame({"kind": "tile"}, np.uint8([[1, 2]]))
    b'8\x00\x00\x00{"kind":"tile","buffers":[{"dtype":"u1","shape":[1,2]}]}\x01\x02'
    """
    buffers = [{"dtype": TYPES[array.dtype.name], "shape": list(array.shape)} for array in arrays]
    text = json.dumps(fields | {"buffers": buffers}, ensure_ascii=False, separators=(",", ":")).encode()
    little = (array.astype(array.dtype.newbyteorder("<"), copy=False) for array in arrays)
    return b"".join([LENGTH.pack(len(text)), text, *(array.tobytes() for array in little)])


def write_envelope(pipe: IO[bytes], number: int, last: int, content: bytes) -> None:
    """Write a frame to the web process."""
    pipe.write(ENVELOPE.pack(number, last, len(content)) + content)
    pipe.flush()


def write_request(fields: Fields) -> bytes:
    """Return a request for the worker: a length and JSON."""
    text = json.dumps(fields, ensure_ascii=False).encode()
    return LENGTH.pack(len(text)) + text


def read_request(pipe: IO[bytes]) -> Fields | None:
    """Read a request from the web process; return None when the pipe is closed."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    text = pipe.read(LENGTH.unpack(head)[0])
    return json.loads(text)
