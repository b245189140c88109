"""Open models of layouts that qkv does not support, through transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import text
from ..i18n import Problem
from .families.setting_table import Unsupported
from .model_files import find_model, load
from .tensor_files import refuse_infinite


def open_any(name: str | Path, *, eager: bool = False, lm_head: bool = False) -> tuple[Any, Any]:
    """Load a model and its tokenizer as `load` does, or through transformers if qkv does not support the layout.

    `eager` selects transformers' eager attention, which returns its weights. `lm_head` loads the language-model head
    and returns a tokenizer of qkv.
    """
    try:
        return load(name)
    except Problem as problem:
        cause = problem.values.get("problem", problem)  # raised by a family, wrapped with the file name
        if not isinstance(cause, Unsupported) and cause.values.get("what") != "model_type":
            raise
        try:
            import transformers
        except ImportError:
            raise problem from None
        return _open_with_transformers(transformers, name, eager, lm_head)


def _open_with_transformers(transformers: Any, name: str | Path, eager: bool, lm_head: bool) -> tuple[Any, Any]:
    """Open a folder by transformers without running, unpickling, downloading or randomly initialising anything.

    Encoder-decoders are always opened with their head: without it they have no output tokens.
    """
    path = find_model(name)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    safe = dict(trust_remote_code=False, local_files_only=True)
    try:
        config = transformers.AutoConfig.from_pretrained(path, **safe)
        heads = [transformers.AutoModelForSeq2SeqLM, *([transformers.AutoModelForCausalLM] if lm_head else [])]
        auto = next((auto for auto in heads if type(config) in auto._model_mapping), transformers.AutoModel)
        kernel = {"attn_implementation": "eager"} if eager else {}
        model, info = auto.from_pretrained(path, use_safetensors=True, output_loading_info=True, **kernel, **safe)
        tokenizer = text.load(path) if lm_head else transformers.AutoTokenizer.from_pretrained(path, **safe)
    except Problem:
        raise
    except Exception as error:  # transformers raises many types
        raise Problem(
            "{model} could not be opened by transformers either: {error}",
            model=name,
            error=str(error).split("\n")[0][:200],
        ) from None
    missing = [key for key in info["missing_keys"] if "pooler" not in key] + [
        str(key) for key in info["mismatched_keys"]
    ]
    if missing:
        raise Problem("{file} is not whole: the weights of {name} are missing", file=path, name=sorted(missing)[0])
    for key, tensor in model.named_parameters():
        refuse_infinite(path, key, tensor.detach())
    return model, tokenizer
