"""Every sentence that a screen shows, as key: (English, 中文); a file per part of the house."""

from . import (
    attention,
    checking,
    evidence,
    generation,
    lab,
    lessons,
    mistakes,
    model,
    problems,
    screens,
    seeing,
    store,
    text,
    tracing,
    train,
)

SENTENCES: dict[str, tuple[str, str]] = {}
for part in (
    problems,
    screens,
    attention,
    model,
    generation,
    text,
    train,
    store,
    tracing,
    seeing,
    checking,
    evidence,
    mistakes,
    lessons,
    lab,
):
    if twice := SENTENCES.keys() & part.SENTENCES.keys():
        raise AssertionError(f"two sentences have the same key: {twice}")
    SENTENCES |= part.SENTENCES
