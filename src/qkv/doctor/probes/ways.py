"""How a cache goes from one call to the next: handed in and given back, kept inside, filled where it lies.

Found by trying; names only order the tries.
"""

import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..case import Case
from ..subject import leavings
from ..subject.building import builds
from ..subject.errors import UserError
from ..subject.guess import meaning, role
from ..subject.subject import Fitted, Subject
from ..subject.values import parameters_of, signature

BATCH = 3  # a buffer made for a few texts has room for so many


@dataclass
class Way:
    """How the cache goes from call to call."""

    kind: str  # "start", "past" or "object"
    parameter: str
    flags: dict[str, Any]
    make: Callable[[], Any] | None = None  # a fresh object, where it is one
    method: str = ""  # the method that takes one token, where it is another than forward
    streams: bool = False  # it was seen that a call goes on from what the one before left behind


def batch_of(subject: Subject) -> int:
    """What is kept inside may be for one text, or for as many as its file says."""
    return 1 if subject.layout == "nc" else min(BATCH, subject.sizes.batch)


def way_of(case: Case) -> Way | None:
    """By what a call was seen to leave behind, by what the signature says, by trying; None where nothing is kept."""
    subject = case.subject
    if subject.left is not None:
        return Way("inside", "", {}, streams=True)
    if (found := _filled(case)) is not None:
        return found
    parameters = inspect.signature(subject.owner.forward).parameters
    flags = {p: True for p, given in parameters.items() if re.search(r"cache", p) and isinstance(given.default, bool)}
    for parameter, r in subject.roles.items():
        if (
            r == "start"
            and re.search(r"start|offset|pos", parameter)
            and not re.search(r"start_pos", parameter)
            and parameter not in subject.fixed
            and not _classes(case)
            and not _state(subject)
        ):
            continue
        if r == "start":
            return Way("start", parameter, flags)
    for parameter, r in subject.roles.items():
        if r == "cache" and parameter not in flags and parameter not in case.says.unused_arguments:
            if _classes(case):
                return Way("object", parameter, flags)
            found = _tried(case) if not flags else None
            return found or Way("past", parameter, flags)
    if flags and _state(subject):
        return Way("inside", next(iter(flags)), flags)
    return _tried(case) or _stepped(case)


def _filled(case: Case) -> Way | None:
    """An argument that the call itself fills: what it leaves there is what the next call goes on from."""
    subject = case.subject
    if subject.inputs != ["x"]:
        return None
    inputs = subject.draw(11, n=3, batch=batch_of(subject))
    for parameter, value in subject.fixed.items():
        if not isinstance(value, Fitted):
            continue

        def make(value: Fitted = value) -> Any:
            return subject.typed(value.make(batch_of(subject), 3, 3))

        given = make()
        before = leavings.copied(given)
        try:
            subject(inputs, {parameter: given})
        except UserError:
            continue
        if not leavings.same(given, before):
            return Way("object", parameter, {}, make=make, streams=True)
    return None


def _tried(case: Case) -> Way | None:
    """What comes back beside the output goes in again by some argument, or an empty dict comes back filled: by trying."""
    subject = case.subject
    if subject.inputs != ["x"]:
        return None
    inputs = subject.draw(11, n=3, batch=batch_of(subject))
    parameters = signature(subject.function).parameters
    open_ = [
        p
        for p, r in subject.roles.items()
        if r in ("", "x", "cache", "memory?") and parameters[p].default is None and p not in subject.fixed
    ]
    try:
        result = subject(inputs)
        given = given_back(result.raw, result.graph, None)
    except UserError:
        return None
    more = subject.draw(12, n=3, batch=batch_of(subject))
    alone = subject(more).output
    for parameter in open_:
        try:
            if given is not None:
                later = subject(more, {parameter: given}).output
                if later.shape == alone.shape and not np.allclose(later, alone):
                    return Way("past", parameter, {})
            filled: dict[Any, Any] = {}
            subject(inputs, {parameter: filled})
            if any(isinstance(t, Tensor) for t in filled.values()):
                return Way("object", parameter, {}, make=dict)
        except UserError:
            continue
    return None


def _stepped(case: Case) -> Way | None:
    """A method beside forward that takes a token and what was kept, and gives both back: step, decode."""
    subject = case.subject
    for name, method in inspect.getmembers(type(subject.owner), inspect.isfunction):
        parameters = list(inspect.signature(method).parameters.values())[1:]
        if name in ("forward", "generate") or name.startswith("_") or len(parameters) != 2 or name in dir(nn.Module):
            continue
        if role(parameters[1].name) == "cache" and parameters[1].default is None:
            return Way("past", parameters[1].name, {}, method=name)
    return None


def _state(subject: Subject) -> bool:
    names = [n for n, _ in subject.owner.named_buffers()] + list(vars(subject.owner))
    return any(re.search(r"cache|past|k_buf|v_buf", n) for n in names)


class Handed:
    """What a model hands to each of its layers: it keeps what it is given and gives back all that it has."""

    def __init__(self) -> None:
        self.kept: tuple[Tensor, ...] = ()

    def update(self, key: Tensor, value: Tensor, *layer: Any, **more: Any) -> tuple[Tensor, ...]:
        """Keys and values so far, the new ones behind them."""
        old = self.kept or (key[..., :0, :], value[..., :0, :])
        self.kept = torch.cat([old[0], key], -2), torch.cat([old[1], value], -2)
        return self.kept

    def get_seq_length(self, *layer: Any) -> int:
        """How many positions are kept."""
        return self.kept[0].shape[-2] if self.kept else 0


def _classes(case: Case) -> list[Any]:
    """The classes of caches that the file has or imports; else, where it asks for `update`, one that does that."""
    own = [
        found
        for name, found in case.space.items()
        if inspect.isclass(found)
        and re.search(r"cache", name.lower())
        and found.__module__ not in ("builtins",)
        and hasattr(found, "__init__")
        and not issubclass(found, nn.Module | Exception)
    ]
    asked = re.search(r"\w*(past|cache)\w*\.update\(", case.says.segment)
    return own or ([Handed] if asked else [])


def caches(case: Case) -> Iterator[Callable[[], Any]]:
    """Ways to make an empty one: its batch, heads and room told by their names, the rest guessed as for any class."""
    subject, sizes = case.subject, case.subject.sizes
    heads = [case.heads, subject.declared.get("kv_heads"), subject.chosen.get("kv_heads"), sizes.kv_heads]
    for found in _classes(case):
        named = {p.name: p.name.lower() for p in parameters_of(found) if p.default is p.empty}
        for count in dict.fromkeys(h for h in heads if h):
            room = {"batch": BATCH, "heads": count, "context": 4 * sizes.context}
            told = {
                name: room[word]
                for name, low in named.items()
                for word in ["batch" if re.search(r"batch|bsz|^bs?$", low) else _room(low)]
                if word in room
            }
            for built in itertools.islice(builds(found, sizes, told or None, {}), 3):
                if built.make is not None:
                    yield built.make
            if not told:
                break


def _room(name: str) -> str:
    word = meaning(name)
    return {"kv_heads": "heads"}.get(word, "context" if re.search(r"capacity|room|slots|entries", name) else word)


def given_back(raw: Any, output: Any, before: Any) -> Any:
    """The past among what came back: keys and values, in a pair, a dict, a stack or an object."""
    if isinstance(raw, dict):
        items = list(raw.values())
    elif isinstance(raw, (tuple, list)):
        items = list(raw)
    else:
        return None
    rest = [i for i in items if i is not output and i is not None]
    for item in rest:
        if isinstance(item, (tuple, list)) and len(item) >= 2 and all(isinstance(t, Tensor) for t in item[:2]):
            return item
        if isinstance(item, dict) and any(isinstance(t, Tensor) for t in item.values()):
            return item
    tensors = [i for i in rest if isinstance(i, Tensor) and i.dim() >= 3]
    if len(tensors) >= 2:
        return tuple(tensors[-2:])
    if len(tensors) == 1 and tensors[0].dim() == 5:
        return tensors[0]
    others = [i for i in rest if hasattr(i, "__dict__") and not isinstance(i, Tensor)]
    return others[0] if others else None
