"""Frames of the studio read back, as the browser does."""

import json

import numpy as np

from qkv.studio.frames import LENGTH


def unpack(answer):
    """Return all frames of an answer: the JSON and the arrays of each."""
    rest, frames = memoryview(answer), []
    while rest:
        (size,) = LENGTH.unpack_from(rest)
        fields = json.loads(bytes(rest[LENGTH.size : LENGTH.size + size]))
        rest = rest[LENGTH.size + size :]
        arrays = []
        for buffer in fields.pop("buffers"):
            array = np.zeros(buffer["shape"], "<" + buffer["dtype"])
            arrays.append(np.frombuffer(rest[: array.nbytes], array.dtype).reshape(array.shape))
            rest = rest[array.nbytes :]
        frames.append((fields, arrays))
    return frames
