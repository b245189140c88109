"""The traces of real models that ship with the package."""

from __future__ import annotations

from pathlib import Path

from .traces import Trace

DEMOS = Path(__file__).parents[2] / "demo" / "traces"
CAT = "The cat sat on the mat because it was tired"


def demo_traces() -> dict[str, Trace]:
    """Return them by name, the cat first.

    >>> next(iter(demo_traces()))
    'cat-smollm2'
    """
    files = sorted(DEMOS.glob("*.safetensors"), key=lambda file: (file.stem != "cat-smollm2", file.stem))
    return {file.stem: Trace.load(file) for file in files}


def demo_of(text: str | None) -> Trace | None:
    """Return the demo trace of exactly this text, None if there is none."""
    return next((trace for trace in demo_traces().values() if trace.text == text), None)
