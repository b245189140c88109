"""A long text goes through a decoder a chunk at a time, its keys and values kept by a cache: what a layer computes on the
way is only ever a chunk long, and the trace is the same."""

from __future__ import annotations

from dataclasses import replace

import torch

from ...attention.formula import Call
from ...mixers.calls import Mixing

CHUNK = 2048  # tokens that go through a model at once
STREAMED = 8192  # and where somebody follows: in chunks, a layer is whole only when the last one goes through it


def is_long(n: int, *, streamed: bool = False) -> bool:
    """Is this more than goes through a model at once?"""
    return n > (STREAMED if streamed else CHUNK)


def chunks(n: int) -> list[slice]:
    """n tokens in as few chunks as may be, all of about one size.

    >>> chunks(CHUNK + 2)
    [slice(0, 1025, None), slice(1025, 2050, None)]
    """
    count = -(-n // CHUNK)
    return [slice(n * i // count, n * (i + 1) // count) for i in range(count)]


def join_call(whole: list[Call | Mixing], i: int, call: Call | Mixing, span: slice, n: int) -> None:
    """Add a chunk's queries to call i of a text of n tokens; keys and values are those seen so far.

    The mask is a rule of distances, the same for every chunk. A mixer hears its chunk alone: its tensors are joined.
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
    if span.start == 0:  # room for all queries at once: joining chunks later would hold them twice
        batch, heads, _, width = call.q.shape
        whole.append(replace(call, q=call.q.new_empty(batch, heads, n, width), lse=None))
    joined = whole[i]
    joined.q[:, :, span] = call.q
    assert isinstance(joined, Call)
    whole[i] = replace(joined, k=call.k, v=call.v, mask=call.mask)
