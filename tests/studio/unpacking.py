"""Frames of the studio read back, as the browser does."""

import json

import numpy as np

from qkv.studio.frames import LENGTH


def unpack(answer):
    """Return all frames of an answer: the JSON and the arrays of each."""
    left, frames = memoryview(answer), []
    while left:
        (size,) = LENGTH.unpack_from(left)
        told = json.loads(bytes(left[LENGTH.size : LENGTH.size + size]))
        left = left[LENGTH.size + size :]
        arrays = []
        for one in told.pop("buffers"):
            array = np.zeros(one["shape"], "<" + one["dtype"])
            arrays.append(np.frombuffer(left[: array.nbytes], array.dtype).reshape(array.shape))
            left = left[array.nbytes :]
        frames.append((told, arrays))
    return frames
