"""Models of layouts that qkv doesn't know, opened by transformers as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import text
from ..i18n import Problem
from .families.setting_table import Unsupported
from .model_files import find_model, load
from .tensor_files import refuse_infinite


def open_any(name: str | Path, *, eager: bool = False, lm_head: bool = False) -> tuple[Any, Any]:
    """A model of ours and its tokenizer, as `load` gives them, or, where qkv doesn't know the layout and transformers is
    installed, the same folder through transformers. `eager`: with the attention that gives its weights itself.
    `words`: with the head that says words, and a tokenizer of ours."""
    try:
        return load(name)
    except Problem as problem:
        cause = problem.values.get("problem", problem)  # told by a family, wrapped by the file it came from
        if not isinstance(cause, Unsupported) and cause.values.get("what") != "model_type":
            raise
        try:
            import transformers
        except ImportError:
            raise problem from None
        return _open_with_transformers(transformers, name, eager, lm_head)


def _open_with_transformers(transformers: Any, name: str | Path, eager: bool, lm_head: bool) -> tuple[Any, Any]:
    """A folder by transformers: nothing of it is executed, unpickled, fetched or drawn at random.

    An encoder-decoder is opened with its head, or it couldn't say anything.
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
    except Exception as error:  # whatever a folder of another make brings up
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
