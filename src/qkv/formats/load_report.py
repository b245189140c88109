"""Why a model can be loaded, or not: what is known of a folder or file, and everything that stands in the way.

`load` stops at the first thing that it has no word for. Here that is noted, the setting is taken to be what qkv reads, and
the rest of the file is looked at, so that all of it is said at once.

>>> from importlib.resources import files
>>> finding = why(str(files("qkv") / "demo" / "dates"))
>>> finding.loads, finding.config.kind
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
from .families import FAMILIES, read_config, to_ours
from .families.family import Family, respelled
from .families.setting_table import HfConfig, Unread

MOST_CURES = 50  # settings of one file that are noted


@dataclass(frozen=True)
class ModelFinding:
    """What is known of a model that somebody names, and what stands in its way."""

    place: Path
    what: Message  # what it is
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


def why(name: str | Path) -> ModelFinding:
    """Look at a folder, a file or a name, as `load` would, without stopping at the first thing in the way."""
    place = model_files.find(name)
    if place.is_file():
        return _simply(place, _architecture(place))
    config = model_files.read_json(place / "config.json") if (place / "config.json").is_file() else {}
    if run_folder.is_run(config):
        return _simply(place, Message("a run of qkv"))
    if "model_type" in config:
        return _published(place, config)
    return _simply(place, Message("a folder of CTranslate2") if ctranslate2.find(place) else Message("a folder"))


def _architecture(file: Path) -> Message:
    """What a GGUF file calls itself, as far as it can be read."""
    try:
        word = gguf.header(file)[0].get("general.architecture")
    except Problem:
        word = None
    if word is None:
        return Message("a GGUF file")
    return Message("a GGUF file, general.architecture {word!r}", word=str(word)[:80])


def _simply(place: Path, what: Message) -> ModelFinding:
    """Of what is read in one go, the first thing in the way is all there is to say."""
    try:
        if place.is_file():
            held = gguf.read(place)
            config, state = to_ours(held.theirs, held.tensors)
            return ModelFinding(place, what, config, tuple(_misfits(place, config, state)))
        model, _tokenizer = model_files.load(place)
        return ModelFinding(place, what, model.config, ())
    except Problem as problem:
        return ModelFinding(place, what, None, (problem,))


def _published(place: Path, theirs: HfConfig) -> ModelFinding:
    """A folder of Hugging Face."""
    word = str(theirs["model_type"])[:80]
    family = next((family for family in FAMILIES if word in family.types), None)
    what = Message("a Hugging Face folder, model_type {word!r}", word=word)
    if family is not None:
        known = _("a Hugging Face folder, model_type {word!r}, a layout of the family {family}")
        what = Message(known, word=word, family=family.name)
    obstacles: list[Problem] = []
    tensors: Mapping[str, Tensor] = {}
    try:
        if file := model_files.in_onnx(place):
            theirs, tensors = onnx.read(file, theirs)
        else:
            tensors = model_files.published(place)
        model_files.refuse_absurd(place, theirs, tensors.shapes)
    except Problem as problem:
        obstacles.append(problem)
    config, found = _read(place, theirs, tensors, family)
    obstacles += found
    try:
        text.load(place)
    except NoTokenizer:  # ids are enough for much
        pass
    except Problem as problem:
        obstacles.append(problem)
    return ModelFinding(place, what, config, tuple(obstacles))


def _read(
    place: Path, theirs: HfConfig, tensors: Mapping[str, Tensor], family: Family | None
) -> tuple[Config | None, list[Problem]]:
    """The config, and what is in its way; each setting that qkv can't read is taken as it could."""
    obstacles: list[Problem] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        for _cure in range(MOST_CURES):
            try:
                if family is not None and (obstacles or not tensors):  # names can't be held to what was changed
                    return read_config(theirs, respelled(family, tensors)), obstacles
                config, state = to_ours(theirs, tensors)
                return config, [*obstacles, *_misfits(place, config, state)]
            except Unread as problem:
                obstacles.append(problem)
                theirs = problem.cure(theirs)
            except Problem as problem:
                return None, [*obstacles, problem]
            except Exception as error:  # whatever a config with nonsense in it makes of the arithmetic
                why = quoted(error)
                nonsense = Problem("{file} describes no model that can be built: {error}", file=place, error=why)
                return None, [*obstacles, nonsense]
    return None, obstacles


def _misfits(place: Path, config: Config, state: dict[str, Tensor]) -> list[Problem]:
    """Tensors of other shapes than the config promises."""
    try:
        model = model_files.empty(config)
    except Problem as problem:
        return [problem]
    wrong = [
        f"{name}: {tuple(state[name].shape)} ≠ {tuple(meant.shape)}"
        for name, meant in model.named_parameters()
        if name in state and state[name].shape != meant.shape
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
