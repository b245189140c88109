"""Export a trained model as a folder that Hugging Face's `transformers` loads, with the same logits.

    config.json   model.safetensors   tokenizer.json   tokenizer_config.json   (generation_config.json)

The layout (LLaMA, Mixtral, Gemma, GPT-2, BERT, T5, Mamba-2, …) follows from the model's config; see `families`.
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
from ..model.config_checks import choose
from ..model.transformer import Transformer
from ..text import Tokenizer
from .families import to_hf
from .families.setting_table import HfConfig
from .quantise import Int8Linear
from .tensor_files import weights_of

FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
GENERATION_CONFIG = "generation_config.json"


def export(model: Transformer, tokenizer: Tokenizer | None, folder: str | Path, to: str = "hf") -> str:
    """Write the folder atomically and return transformers' model_type of the layout: llama, gpt2, bert, …

    An earlier export at the same path is replaced; any other non-empty folder is refused.
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
    config, tensors = to_hf(model.config, weights_of(model))
    dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
    config |= {"dtype": dtype, "torch_dtype": dtype}  # the names in transformers 5 and 4
    for role in ("bos", "eos", "pad"):  # written even if None, since families have defaults
        config[f"{role}_token_id"] = getattr(tokenizer, role, None)
    if model.config.kind == "encoder-decoder":
        start = getattr(tokenizer, "start", None)  # the first token of a decoder
        start = getattr(tokenizer, "bos", None) if start is None else start
        config["decoder_start_token_id"] = 0 if start is None else start
    config["qkv_version"] = __version__

    generation = {} if tokenizer is None else tokenizer.habits.as_config()
    if generation:  # this file overrides all generation settings of config.json
        ends = tokenizer.ends if tokenizer is not None and tokenizer.ends else None
        names = ("bos_token_id", "pad_token_id", "decoder_start_token_id")
        generation |= {"eos_token_id": ends, **{name: config[name] for name in names if name in config}}

    with replace_folder(folder) as target:
        if generation:
            _write_json(target / GENERATION_CONFIG, generation)
        _write_json(target / "config.json", config)
        save_tensors({name: tensor.cpu() for name, tensor in tensors.items()}, target / FILES[1], {"format": "pt"})
        if tokenizer is not None:
            tokenizer.save(target)
            tokenizer_config = json.loads((target / "tokenizer_config.json").read_text(encoding="utf-8"))
            _write_json(target / "tokenizer_config.json", tokenizer_config | {"model_max_length": model.config.context})
    if tokenizer is not None and config["model_type"] == "qwen2" and not _is_qwen_tokenizer(tokenizer):
        warnings.warn(
            "this is the Qwen2 layout (bias='qkv'), for which AutoTokenizer of transformers 5 builds Qwen's own tokenizer "
            f"whatever the folder says: load this one with PreTrainedTokenizerFast.from_pretrained({str(folder)!r})",
            stacklevel=2,
        )
    return config["model_type"]


def _is_qwen_tokenizer(tokenizer: Tokenizer) -> bool:
    return json.loads(tokenizer.to_json())["normalizer"] == {"type": "NFC"}


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces `folder` when the block succeeds, and is deleted if it fails."""
    folder = folder.resolve()
    _refuse_other_files(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    new, old = staging / "new", staging / "old"
    try:
        new.mkdir()
        yield new
        flush_folder(new)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        flush_folder(folder.parent)
    except OSError as error:
        if error.filename is not None and staging in Path(error.filename).parents:
            error.filename, error.filename2 = str(folder), None  # the path that the user gave
        raise
    finally:
        if old.exists() and not folder.exists():  # interrupted between the two renames
            old.rename(folder)
        shutil.rmtree(staging, ignore_errors=True)


def _refuse_other_files(folder: Path) -> None:
    """Raise Problem unless the folder is empty, missing, or an unchanged earlier export."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise Problem("{folder} is a file: name a new folder for the export", folder=folder)
    present = sorted(file.name for file in folder.iterdir())
    unknown = [name for name in present if name not in (*FILES, GENERATION_CONFIG)]
    if present and not unknown and not _is_export(folder / "config.json"):
        unknown = present
    if unknown:
        names = all_of([*unknown[:3], *["…"] * (len(unknown) > 3)])
        raise Problem(
            "{folder} holds {names}, which no export of qkv wrote: name a new folder, or empty this one",
            folder=folder,
            names=names,
        )


def _is_export(config: Path) -> bool:
    try:
        return "qkv_version" in json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _write_json(file: Path, values: HfConfig) -> None:
    write_file(file, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
