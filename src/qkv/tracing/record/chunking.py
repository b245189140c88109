"""Run a long text through a decoder in chunks with a key/value cache: the trace is the same, activations are a chunk long."""

from __future__ import annotations

from dataclasses import replace

import torch

from ...attention.formula import Call
from ...mixers.calls import Mixing

CHUNK = 2048  # the most tokens in one forward pass
STREAMED = 8192  # the same while streaming: with chunks, no layer is complete before the last chunk


def is_long(n: int, *, streamed: bool = False) -> bool:
    """True if a text is too long for one forward pass."""
    return n > (STREAMED if streamed else CHUNK)


def chunks(n: int) -> list[slice]:
    """Split n tokens into as few chunks as possible, of about equal size.

    >>> chunks(CHUNK + 2)
    [slice(0, 1025, None), slice(1025, 2050, None)]
    """
    count = -(-n // CHUNK)
    return [slice(n * i // count, n * (i + 1) // count) for i in range(count)]


def join_call(whole: list[Call | Mixing], i: int, call: Call | Mixing, span: slice, n: int) -> None:
    """Add a chunk's queries to call i of a text of n tokens. The chunk's keys and values include the earlier ones.

    The mask is a rule of distances, the same for every chunk. A mixer's call has its chunk alone: its tensors are joined.
    """
    if isinstance(call, Mixing):
        if span.start == 0:
            whole.append(call)
            return
        previous = whole[i]
        assert isinstance(previous, Mixing)
        q, k, v, decay = (
            torch.cat([getattr(each, name) for each in (previous, call)], 2) for name in ("q", "k", "v", "decay")
        )
        write = None if previous.write is None or call.write is None else torch.cat([previous.write, call.write], 2)
        whole[i] = replace(previous, q=q, k=k, v=v, decay=decay, write=write)
        return
    if span.start == 0:  # allocate all queries at once: joining chunks at the end would need twice the memory
        batch, heads, _, width = call.q.shape
        whole.append(replace(call, q=call.q.new_empty(batch, heads, n, width), lse=None))
    joined = whole[i]
    joined.q[:, :, span] = call.q
    assert isinstance(joined, Call)
    whole[i] = replace(joined, k=call.k, v=call.v, mask=call.mask)
