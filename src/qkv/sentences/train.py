"""Mistakes that a training run refuses."""

SENTENCES: dict[str, tuple[str, str]] = {}
