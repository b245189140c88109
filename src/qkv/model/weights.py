"""Weights in and out: safetensors only, by name. Nothing is ever unpickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from .. import text
from .config import Config
from .transformer import Transformer


def load(name: str | Path) -> tuple[Transformer, text.Tokenizer]:
    """The model and tokenizer of a run folder: its best checkpoint, or its newest; ready to use (eval)."""
    folder = Path(name)
    config = read_run(folder)
    with torch.device("meta"):  # weights come from the file: none are drawn first
        model = Transformer(Config.from_dict(config["model"]))
    model = model.to_empty(device="cpu")
    model.tie()  # giving every tensor memory of its own has parted the two
    load_weights(_best(folder) / "model.safetensors", model)
    return model.eval(), text.load(folder)


def read_run(folder: Path) -> dict[str, Any]:
    """The config.json of a run folder."""
    file = folder / "config.json"
    if not file.is_file():
        raise FileNotFoundError(f"{folder} is no run of qkv: there is no {file}. Train one with `qkv train`")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        known = str(config["format"]).startswith("qkv run")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} can't be read: {error}") from None
    if not known:
        raise ValueError(f"{file} is {config['format']!r}: this version reads 'qkv run 1'")
    return config


def _best(folder: Path) -> Path:
    """The checkpoint with the lowest validation loss, else the newest."""
    found: list[tuple[float, int, Path]] = []
    for place in sorted((folder / "checkpoints").glob("[0-9]*")):
        try:
            state = json.loads((place / "state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        found.append((0.0 if state.get("best_step") == state["step"] else 1.0, -state["step"], place))
    if not found:
        raise FileNotFoundError(f"{folder} has no checkpoint yet: go on with `qkv train --resume {folder}`")
    return min(found)[2]


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every learned tensor by name; one that is shared (a tied head) appears once."""
    return {name: p.detach().contiguous() for name, p in model.named_parameters()}


def load_weights(file: Path, model: nn.Module) -> None:
    """Copy weights by name into a model of the same config."""
    try:
        saved = load_file(file)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{file} is not a readable safetensors file: {error}") from None
    own = dict(model.named_parameters())
    for name in own.keys() | saved.keys():
        if name not in saved or name not in own or saved[name].shape != own[name].shape:
            there, here = (None if name not in d else tuple(d[name].shape) for d in (saved, own))
            raise ValueError(
                f"{file} is of another config: {name} is {there or 'missing'} there and {here or 'missing'} here"
            )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(saved[name])
