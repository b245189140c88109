"""Why a model can be loaded, or not: what is known of a folder or file, and everything that stands in the way.

`load` stops at the first thing that it has no word for. Here that is noted, the setting is taken to be what qkv reads, and
the rest of the file is looked at, so that all of it is said at once.

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

MAX_REPAIRS = 50  # settings of one file that are noted


@dataclass(frozen=True)
class ModelReport:
    """What is known of a model that somebody names, and what stands in its way."""

    path: Path
    description: Message  # what it is
    config: Config | None  # as it would be read, where that can be said
    obstacles: tuple[Problem, ...]

    @property
    def loads(self) -> bool:
        """Does nothing stand in its way?"""
        return not self.obstacles

    def settings(self) -> list[str]:
        """The words of Config that it uses: those that aren't as they would be anyway."""
        if self.config is None:
            return []
        usual = Config()
        changed = [name for name in usual.to_dict() if getattr(self.config, name) != getattr(usual, name)]
        return [f"{name}={getattr(self.config, name)!r}" for name in changed]


def inspect_model(name: str | Path) -> ModelReport:
    """Look at a folder, a file or a name, as `load` would, without stopping at the first thing in the way."""
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
    """What a GGUF file calls itself, as far as it can be read."""
    try:
        word = gguf.header(file)[0].get("general.architecture")
    except Problem:
        word = None
    if word is None:
        return Message("a GGUF file")
    return Message("a GGUF file, general.architecture {word!r}", word=str(word)[:80])


def _inspect_at_once(path: Path, what: Message) -> ModelReport:
    """Of what is read in one go, the first thing in the way is all there is to say."""
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
    """A folder of Hugging Face."""
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
    except NoTokenizer:  # ids are enough for much
        pass
    except Problem as problem:
        obstacles.append(problem)
    return ModelReport(path, what, config, tuple(obstacles))


def _read_all(
    path: Path, hf_config: HfConfig, tensors: Mapping[str, Tensor], family: Family | None
) -> tuple[Config | None, list[Problem]]:
    """The config, and what is in its way; each setting that qkv can't read is taken as it could."""
    obstacles: list[Problem] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        for _repair in range(MAX_REPAIRS):
            try:
                if family is not None and (obstacles or not tensors):  # names can't be held to what was changed
                    return read_config(hf_config, normalise_names(family, tensors)), obstacles
                config, state = from_hf(hf_config, tensors)
                return config, [*obstacles, *_shape_problems(path, config, state)]
            except UnsupportedValue as problem:
                obstacles.append(problem)
                hf_config = problem.repair(hf_config)
            except Problem as problem:
                return None, [*obstacles, problem]
            except Exception as error:  # whatever a config with nonsense in it makes of the arithmetic
                error_text = quoted(error)
                nonsense = Problem("{file} describes no model that can be built: {error}", file=path, error=error_text)
                return None, [*obstacles, nonsense]
    return None, obstacles


def _shape_problems(path: Path, config: Config, state: dict[str, Tensor]) -> list[Problem]:
    """Tensors of other shapes than the config promises."""
    try:
        model = model_files.empty_model(config)
    except Problem as problem:
        return [problem]
    wrong = [
        f"{name}: {tuple(state[name].shape)} ≠ {tuple(parameter.shape)}"
        for name, parameter in model.named_parameters()
        if name in state and state[name].shape != parameter.shape
    ]
    if not wrong:
        return []
    return [
        Problem(
            "{count} tensors have other shapes than its config promises: {names}",
            count=len(wrong),
            names=all_of(wrong[:3]),
        )
    ]
