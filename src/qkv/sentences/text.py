"""Mistakes that tokenizers, corpora and pairs refuse."""

SENTENCES: dict[str, tuple[str, str]] = {}
