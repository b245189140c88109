"""Explain why a model can or cannot be loaded: its description and everything that prevents loading.

`load` stops at the first unsupported setting. Here the setting is recorded and replaced by a supported value, and the
check goes on, so that all obstacles are reported at once.

>>> from importlib.resources import files
>>> report = inspect_model(str(files("qkv") / "demo" / "dates"))
>>> report.loads, report.config.kind
(True, 'encoder-decoder')
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from .. import text
from ..disk import run_folder
from ..i18n import Message, Notice, Problem, _, all_of, quoted
from ..model.config import Config
from ..text.tokenizer_folder import NoTokenizer
from . import ctranslate2, gguf, model_files, onnx
from .families import FAMILIES, from_hf, read_config
from .families.family import Family, normalise_names
from .families.setting_table import HfConfig, UnsupportedValue

MAX_REPAIRS = 50  # unsupported settings per file


@dataclass(frozen=True)
class ModelReport:
    """The description of a model, and what prevents loading it."""

    path: Path
    description: Message
    config: Config | None  # None if it can't be determined
    obstacles: tuple[Problem, ...]

    @property
    def loads(self) -> bool:
        """True if nothing prevents loading."""
        return not self.obstacles

    def settings(self) -> list[str]:
        """Return the settings of Config that differ from their defaults, as name=value."""
        if self.config is None:
            return []
        usual = Config()
        changed = [name for name in usual.to_dict() if getattr(self.config, name) != getattr(usual, name)]
        return [f"{name}={getattr(self.config, name)!r}" for name in changed]


def inspect_model(name: str | Path) -> ModelReport:
    """Check a folder, file or name as `load` does, without stopping at the first obstacle."""
    path = model_files.find_model(name)
    if path.is_file():
        return _inspect_at_once(path, _architecture(path))
    config = model_files.read_json(path / "config.json") if (path / "config.json").is_file() else {}
    if run_folder.is_run(config):
        return _inspect_at_once(path, Message("a run of qkv"))
    if "model_type" in config:
        return _inspect_hf_folder(path, config)
    return _inspect_at_once(path, Message("a folder of CTranslate2") if ctranslate2.find(path) else Message("a folder"))


def _architecture(file: Path) -> Message:
    """Describe a GGUF file by its general.architecture."""
    try:
        word = gguf.header(file)[0].get("general.architecture")
    except Problem:
        word = None
    if word is None:
        return Message("a GGUF file")
    return Message("a GGUF file, general.architecture {word!r}", word=str(word)[:80])


def _inspect_at_once(path: Path, what: Message) -> ModelReport:
    """Report on a format whose reader stops at the first obstacle."""
    try:
        if path.is_file():
            file = gguf.read(path)
            config, state = from_hf(file.config, file.tensors)
            return ModelReport(path, what, config, tuple(_shape_problems(path, config, state)))
        model, _tokenizer = model_files.load(path)
        return ModelReport(path, what, model.config, ())
    except Problem as problem:
        return ModelReport(path, what, None, (problem,))


def _inspect_hf_folder(path: Path, hf_config: HfConfig) -> ModelReport:
    """Report on a Hugging Face folder."""
    word = str(hf_config["model_type"])[:80]
    family = next((family for family in FAMILIES if word in family.types), None)
    what = Message("a Hugging Face folder, model_type {word!r}", word=word)
    if family is not None:
        description = _("a Hugging Face folder, model_type {word!r}, a layout of the family {family}")
        what = Message(description, word=word, family=family.name)
    obstacles: list[Problem] = []
    tensors: Mapping[str, Tensor] = {}
    try:
        if file := model_files.find_onnx(path):
            hf_config, tensors = onnx.read(file, hf_config)
        else:
            tensors = model_files.hf_tensors(path)
        model_files.refuse_impossible_sizes(path, hf_config, tensors.shapes)
    except Problem as problem:
        obstacles.append(problem)
    config, more = _read_all(path, hf_config, tensors, family)
    obstacles += more
    try:
        text.load(path)
    except NoTokenizer:  # token ids are enough for many uses
        pass
    except Problem as problem:
        obstacles.append(problem)
    return ModelReport(path, what, config, tuple(obstacles))


def _read_all(
    path: Path, hf_config: HfConfig, tensors: Mapping[str, Tensor], family: Family | None
) -> tuple[Config | None, list[Problem]]:
    """Return the config and the obstacles. Unsupported settings are replaced by supported values."""
    obstacles: list[Problem] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        for _repair in range(MAX_REPAIRS):
            try:
                if family is not None and (obstacles or not tensors):  # names need not match a changed config
                    return read_config(hf_config, normalise_names(family, tensors)), obstacles
                config, state = from_hf(hf_config, tensors)
                return config, [*obstacles, *_shape_problems(path, config, state)]
            except UnsupportedValue as problem:
                obstacles.append(problem)
                hf_config = problem.repair(hf_config)
            except Problem as problem:
                return None, [*obstacles, problem]
            except Exception as error:  # invalid values may raise anything
                error_text = quoted(error)
                nonsense = Problem("{file} describes no model that can be built: {error}", file=path, error=error_text)
                return None, [*obstacles, nonsense]
    return None, obstacles


def _shape_problems(path: Path, config: Config, state: dict[str, Tensor]) -> list[Problem]:
    """Return a Problem if tensors have other shapes than the config implies."""
    try:
        model = model_files.empty_model(config)
    except Problem as problem:
        return [problem]
    wrong = [
        f"{name}: {tuple(state[name].shape)} ≠ {tuple(parameter.shape)}"
        for name, parameter in model.named_parameters()
        if name in state and state[name].shape != parameter.shape
    ]
    sentence = _("{count} tensors have other shapes than its config promises: {names}")
    return [Problem(sentence, count=len(wrong), names=all_of(wrong[:3]))] if wrong else []
