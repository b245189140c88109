"""Where a model lies, by whatever names it. Needs no torch, so that a wrong name is refused at once."""

import os
from pathlib import Path

from ..i18n import Problem, _, all_of, nearest
from ..library import store


def find_model(name: str | Path) -> Path:
    """Where a model lies: a folder or file as it is, or a name's place in the cache."""
    path, named = Path(name), str(name)
    if not named:  # else it would be the folder one stands in
        raise Problem("the name of the model is empty: give a folder, a .gguf file or a name of `qkv models`")
    if os.path.isdir(path):  # unlike Path's, false of a name that is too long for any file
        return path
    if os.path.isfile(path):
        if path.suffix != ".gguf":
            raise Problem(
                "{file} is neither a folder nor a .gguf file: give the folder that it lies in, {folder}, with its "
                "config.json and tokenizer",
                file=path,
                folder=path.parent,
            )
        return path
    names = [item.name for item in store.listing("model")]
    if named not in names and not named.startswith("hf:"):
        nearest_name = nearest(named, names)
        raise Problem(
            _(
                "there is no model {name}: did you mean {near}? (`qkv models` has {names}; it is no folder or .gguf "
                "file either)"
            )
            if nearest_name
            else _(
                "there is no model {name}: no such folder or .gguf file, and no name of `qkv models` (there are "
                "{names}; hf:owner/name is one of the Hugging Face hub)"
            ),
            name=named,
            names=all_of(names),
            near=nearest_name,
        )
    cached = store.path(named)
    if cached is None:
        raise store.absent(named)
    return cached
