"""Attention as pictures: in a terminal (terminal.py), with matplotlib (plots.py), as one offline page (page.py).

Figures whose numbers can be changed, for a book: machine.py, rotary.py, distribution.py.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from . import page as page
    from . import plots as plots
    from . import terminal as terminal
    from .plots import heatmap as heatmap

__getattr__, __dir__, __all__ = lazy(
    __name__,
    heatmap="plots",
    page="page",
    plots="plots",
    terminal="terminal",
)
