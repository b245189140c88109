"""What a family is: where each of our tensors lies in a published layout, and how its config.json reads.

A family is a table, not code: `Row("decoder.0.attention.q.weight", "model.layers.0.self_attn.q_proj.weight")` says it
in both directions. A row may stack several of our tensors into one of theirs (GPT-2's q, k and v) and may transpose
(GPT-2 keeps its matrices the other way round). Every row must be there: a tensor too few or too many is an error.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..config import Config

State = dict[str, Tensor]


@dataclass(frozen=True)
class Row:
    """One tensor of theirs, and the one of ours that it is, or those that it stacks along the outputs."""

    ours: str | tuple[str, ...]
    theirs: str
    transposed: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """Our names."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours


@dataclass(frozen=True)
class Family:
    """A published layout: what it can hold, its config reader and writer, its table of names."""

    name: str  # as people call it
    types: tuple[str, ...]  # the words that transformers has for it, `model_type`
    holds: dict[str, tuple[Any, ...]]  # setting -> the values that the layout can express, the usual one first
    obstacles: Callable[[Config], list[str]]  # what more than one setting decides: "n_kv_head=4 (here 2)"
    write: Callable[[Config], dict[str, Any]]
    read: Callable[[dict[str, Any]], Config]
    rows: Callable[[Config], list[Row]]
    fill: Callable[[Config, State], State] = lambda config, state: state  # 0 where the layout has more than we do
    ignored: str = "$^"  # a pattern: tensors in published files that hold nothing learned, or nothing of ours


def linear(ours: str | tuple[str, ...], theirs: str, *, bias: bool, transposed: bool = False) -> list[Row]:
    """The rows of a layer with a weight and perhaps a bias."""
    parts = (ours,) if isinstance(ours, str) else ours
    rows = [Row(tuple(f"{part}.weight" for part in parts), f"{theirs}.weight", transposed)]
    return rows + [Row(tuple(f"{part}.bias" for part in parts), f"{theirs}.bias")] * bias


def in_the_way(family: Family, config: Config) -> list[str]:
    """Each setting that the layout can't express, with what it could: empty if the model fits."""
    found = []
    for name, values in family.holds.items():
        if getattr(config, name) not in values:
            could = " or ".join(f"{name}={value!r}" for value in values)
            found.append(f"{could} (here {getattr(config, name)!r})")
    return found + family.obstacles(config)


def plain_heads(config: Config) -> list[str]:
    """The obstacles of a layout whose heads share nothing and divide the width."""
    found = []
    if config.n_kv_head not in (None, config.n_head):
        found.append(f"n_kv_head={config.n_head} (here {config.n_kv_head})")
    if config.head_width is not None and config.head_width * config.n_head != config.width:
        found.append(f"head_width × n_head = width (here {config.head_width} × {config.n_head} and {config.width})")
    return found


def zero_biases(state: State) -> State:
    """A bias of 0 for each matrix of the blocks that has none: the same function, for layouts that always have one."""
    inside = re.compile(r"(.*\.(?:attention|feed_forward)\.\w+)\.weight")
    matrices = {found[1]: weight for name, weight in state.items() if (found := inside.fullmatch(name))}
    return {f"{name}.bias": weight.new_zeros(len(weight)) for name, weight in matrices.items()} | state


def rename_to_theirs(family: Family, config: Config, state: State) -> State:
    """Our tensors under their names."""
    state, theirs = family.fill(config, state), {}
    rows = family.rows(config)
    _account(f"a {family.name} layout has no place for", set(state) - {part for row in rows for part in row.parts})
    for row in rows:
        tensor = torch.cat([state[part] for part in row.parts])
        theirs[row.theirs] = (tensor.T if row.transposed else tensor).contiguous()
    return theirs


def rename_to_ours(family: Family, config: Config, tensors: Mapping[str, Tensor]) -> State:
    """Their tensors under our names, as `Transformer(config).load_state_dict` takes them."""
    rows = family.rows(config)
    known = {row.theirs for row in rows}
    _account(f"these weights are no whole {family.name}: missing", known - set(tensors))
    strange = {name for name in set(tensors) - known if not re.search(family.ignored, name)}
    _account(f"these weights are no {family.name} that qkv knows: there is also", strange)
    ours: State = {}
    for row in rows:
        tensor = tensors[row.theirs].T if row.transposed else tensors[row.theirs]
        ours |= dict(zip(row.parts, tensor.chunk(len(row.parts)), strict=True))
    if config.tied:
        ours["head.weight"] = ours["embedding.weight"]
    return ours


def insist(theirs: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse a foreign config with a setting that our model has no word for; what isn't said counts as wanted."""
    for name, value in wanted.items():
        if theirs.get(name, value) != value:
            raise ValueError(f"{name} is {theirs[name]!r} in this config.json: qkv reads it with {value!r} only")


def word_of(theirs: str, words: dict[str, str]) -> str:
    """Our word for one of theirs, from a table ours -> theirs."""
    for ours, word in words.items():
        if word == theirs:
            return ours
    raise ValueError(f"the activation {theirs!r} has no word in qkv: it knows {', '.join(words.values())}")


def _account(what: str, names: Iterable[str]) -> None:
    if names := sorted(names):
        raise ValueError(f"{what} {', '.join(names[:5])}" + (f" and {len(names) - 5} more" if len(names) > 5 else ""))
