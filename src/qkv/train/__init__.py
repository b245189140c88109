"""Training: what to learn (tasks), how to step (optim), what to keep (checkpoint), and the loop that is a page long."""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .run import Run as Run
    from .run import resume as resume
    from .run import start as start
    from .settings import Settings as Settings

__getattr__, __dir__, __all__ = lazy(
    __name__,
    Settings="settings",
    Run="run",
    start="run",
    resume="run",
)
