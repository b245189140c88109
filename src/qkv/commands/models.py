"""What the verbs that use a trained model share: finding it, and refusing one of the wrong kind."""

from pathlib import Path
from typing import Any

from ..words import Problem

KINDS = {"generate": "decoder", "fill": "encoder", "translate": "encoder-decoder"}


def open_model(name: str | None, verb: str) -> tuple[Any, Any]:
    """(model, tokenizer) of a run's folder."""
    if name is None:
        raise Problem("problem.model.none")
    from ..model.weights import load

    model, tokenizer = load(Path(name))
    kind = model.config.kind
    if verb in KINDS and kind != KINDS[verb]:
        raise Problem("problem.model.kind", model=name, kind=kind, verb=f"qkv {verb}", needed=KINDS[verb])
    return model, tokenizer


def need_text(text: str | None, example: str) -> str:
    """The text, or a sentence that shows how to give one."""
    if text is None or not text.strip():
        raise Problem("problem.text.none", example=example)
    return text
