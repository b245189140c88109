"""Find a model by folder, file or name. Does not import torch, so wrong names fail quickly."""

import os
from pathlib import Path

from ..i18n import Problem, _, all_of, nearest
from ..library import store


def find_model(name: str | Path) -> Path:
    """Return the path of a model: an existing folder or file, or the cached copy of a named model."""
    path, named = Path(name), str(name)
    if not named:  # Path("") is the current folder
        raise Problem("the name of the model is empty: give a folder, a .gguf file or a name of `qkv models`")
    if os.path.isdir(path):  # unlike Path.is_dir, False for names that are too long
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
                "there is no model {name}: did you mean {near}? (`qkv models` has {names}; it is not a folder or .gguf "
                "file either)"
            )
            if nearest_name
            else _(
                "there is no model {name}: no such folder or .gguf file, and not a name of `qkv models` (there are "
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
