"""Looking into attention: what was recorded, kept as q, k and v, never as the n×n matrix."""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .edits import edit as edit
    from .edits import importance as importance
    from .edits import without as without
    from .induction import induction_test as induction_test
    from .recorder import trace as trace
    from .traces import Trace as Trace

__getattr__, __dir__, __all__ = lazy(
    __name__,
    Trace="traces",
    trace="recorder",
    edit="edits",
    without="edits",
    importance="edits",
    induction_test="induction",
)
