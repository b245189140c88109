"""A trained model as a folder that Hugging Face's `transformers` loads, with the same logits.

    config.json   model.safetensors   tokenizer.json   tokenizer_config.json   (generation_config.json)

Which layout it is (LLaMA, Mixtral, Gemma, GPT-2, BERT, T5, Mamba-2, …) follows from the model's config; `families` has the tables.
"""

import json
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .. import __version__
from ..disk.atomic_files import flush_folder, save_tensors, write_file
from ..i18n import Problem, all_of
from ..model.layer_pattern import choose
from ..model.transformer import Transformer
from ..text import Tokenizer
from .families import to_theirs
from .families.setting_table import HfConfig
from .quantise import Int8Linear
from .tensor_files import weights_of

FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
HABITS = "generation_config.json"


def export(model: Transformer, tokenizer: Tokenizer | None, folder: str | Path, to: str = "hf") -> str:
    """Write the folder, wholly or not at all, and give transformers' word for the layout: llama, gpt2, bert, …

    An earlier export in its place is replaced; any other folder that holds something is left alone.
    """
    choose("to", to, ("hf",))
    folder = Path(folder)
    if tokenizer is not None and tokenizer.vocab > model.config.vocab:
        raise Problem(
            "the tokenizer has {tokens} tokens and the model {vocab}: it is another model's",
            tokens=tokenizer.vocab,
            vocab=model.config.vocab,
        )
    if any(isinstance(module, Int8Linear) for module in model.modules()):
        raise Problem("this model's weights were rounded to 8 bits: export it before quantise()")
    config, tensors = to_theirs(model.config, weights_of(model))
    dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
    config |= {"dtype": dtype, "torch_dtype": dtype}  # transformers 5's word for it, and 4's
    for role in ("bos", "eos", "pad"):  # said even where there is none, since families have defaults
        config[f"{role}_token_id"] = getattr(tokenizer, role, None)
    if model.config.kind == "encoder-decoder":
        start = getattr(tokenizer, "start", None)  # what a decoder begins with
        start = getattr(tokenizer, "bos", None) if start is None else start
        config["decoder_start_token_id"] = 0 if start is None else start
    config["qkv_version"] = __version__

    habits = {} if tokenizer is None else tokenizer.habits.told()
    if habits:  # such a file speaks for all that config.json would say of writing
        ends = tokenizer.ends if tokenizer is not None and tokenizer.ends else None
        names = ("bos_token_id", "pad_token_id", "decoder_start_token_id")
        habits |= {"eos_token_id": ends, **{name: config[name] for name in names if name in config}}

    with whole(folder) as part:
        if habits:
            _write_json(part / HABITS, habits)
        _write_json(part / "config.json", config)
        save_tensors({name: tensor.cpu() for name, tensor in tensors.items()}, part / FILES[1], {"format": "pt"})
        if tokenizer is not None:
            tokenizer.save(part)
            told = json.loads((part / "tokenizer_config.json").read_text(encoding="utf-8"))
            _write_json(part / "tokenizer_config.json", told | {"model_max_length": model.config.context})
    if tokenizer is not None and config["model_type"] == "qwen2" and not _is_qwens(tokenizer):
        warnings.warn(
            "this is the Qwen2 layout (bias='qkv'), for which AutoTokenizer of transformers 5 builds Qwen's own tokenizer "
            f"whatever the folder says: load this one with PreTrainedTokenizerFast.from_pretrained({str(folder)!r})",
            stacklevel=2,
        )
    return config["model_type"]


def _is_qwens(tokenizer: Tokenizer) -> bool:
    return json.loads(tokenizer.to_json())["normalizer"] == {"type": "NFC"}


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `folder` once all is on the disk, and vanishes if anything fails."""
    folder = folder.resolve()
    _refuse_strangers(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    part, old = beside / "new", beside / "old"
    try:
        part.mkdir()
        yield part
        flush_folder(part)
        if folder.exists():
            folder.rename(old)
        part.rename(folder)
        flush_folder(folder.parent)
    except OSError as error:
        if error.filename is not None and beside in Path(error.filename).parents:
            error.filename, error.filename2 = str(folder), None  # the name that the user knows
        raise
    finally:
        if old.exists() and not folder.exists():  # Ctrl-C fell between the two
            old.rename(folder)
        shutil.rmtree(beside, ignore_errors=True)


def _refuse_strangers(folder: Path) -> None:
    """Only an earlier export may be replaced, and only if nothing was added to it."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise Problem("{folder} is a file: name a new folder for the export", folder=folder)
    there = sorted(file.name for file in folder.iterdir())
    strange = [name for name in there if name not in (*FILES, HABITS)]
    if there and not strange and not _exported(folder / "config.json"):
        strange = there
    if strange:
        names = all_of([*strange[:3], *["…"] * (len(strange) > 3)])
        raise Problem(
            "{folder} holds {names}, which no export of qkv wrote: name a new folder, or empty this one",
            folder=folder,
            names=names,
        )


def _exported(config: Path) -> bool:
    try:
        return "qkv_version" in json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _write_json(file: Path, values: HfConfig) -> None:
    write_file(file, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
