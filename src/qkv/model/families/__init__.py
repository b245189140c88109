"""Published layouts, each a name table with a config reader and writer: one file per family."""

import difflib
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..config import Config
from .bert import BERT
from .family import Family, State, in_the_way, rename_to_ours, rename_to_theirs
from .gpt2 import GPT2
from .llama import LLAMA

FAMILIES: tuple[Family, ...] = (LLAMA, GPT2, BERT)


def family_of(config: Config) -> Family:
    """The layout that holds such a model; where none does, an error names the nearest and what it would need."""
    same_kind = [family for family in FAMILIES if config.kind in family.holds["kind"]]
    if not same_kind:
        known = ", ".join(f"{family.name} for {' and '.join(family.holds['kind'])}" for family in FAMILIES)
        raise ValueError(f"no published layout here holds an {config.kind} (known: {known})")
    family = min(same_kind, key=lambda family: len(in_the_way(family, config)))
    if needs := in_the_way(family, config):
        raise ValueError(
            f"no published layout holds this model. The nearest is {family.name}, which would need "
            f"{'; '.join(needs)}: train it with these settings to export it"
        )
    return family


def to_theirs(config: Config, state: State) -> tuple[dict[str, Any], State]:
    """config.json and tensors as the family has them; `state` is `dict(model.named_parameters())`."""
    family = family_of(config)
    return family.write(config), rename_to_theirs(family, config, state)


def to_ours(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> tuple[Config, State]:
    """Config and state dict of ours from a family's config.json and tensors."""
    word = str(theirs.get("model_type"))
    known = {name: family for family in FAMILIES for name in family.types}
    if word not in known:
        near = difflib.get_close_matches(word, known, n=1)
        raise ValueError(
            f"model_type {word!r} is not one of {', '.join(known)}" + (f"; did you mean {near[0]!r}?" if near else "")
        )
    try:
        config = known[word].read(theirs)
    except KeyError as missing:
        raise ValueError(f"this config.json says nothing of {missing}, which a {word} needs") from None
    return config, rename_to_ours(known[word], config, tensors)
