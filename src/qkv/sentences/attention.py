"""Mistakes that attention and masks refuse."""

SENTENCES: dict[str, tuple[str, str]] = {}
