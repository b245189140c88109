"""Mistakes that models, weights and generation refuse."""

SENTENCES: dict[str, tuple[str, str]] = {}
