"""Draw attention: in a terminal, with matplotlib and as an offline HTML page.

Read in this order: `terminal_map`, `derivation`, `mixer_derivation`, `head_report`, `figure_canvas`,
`plots`, `caption_picture`, `precision`, `layer_json`, `page_data`, `page_shell`, `page`. Interactive figures for the
book: `head_machine`, `rotary_figure`, `dot_product_figure`.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from . import page as page
    from . import plots as plots
    from . import terminal_map as terminal_map
    from .plots import heatmap as heatmap

__getattr__, __dir__, __all__ = lazy(__name__, heatmap="plots", page="page", plots="plots", terminal_map="terminal_map")
