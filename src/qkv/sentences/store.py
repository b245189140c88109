"""Mistakes that named data sets and models refuse."""

SENTENCES: dict[str, tuple[str, str]] = {}
