"""The catalogue: every mistake that `qkv check` knows, one class each."""

from ...i18n import _
from . import caches, crossing, heads, masks, positions, projections, scale, softmax, states, training, triangles
from .mistake import Mistake

ROOMS = (scale, softmax, masks, triangles, heads, projections, crossing, positions, caches, states, training)
CATALOGUE: dict[str, type[Mistake]] = {
    one.id: one
    for room in ROOMS
    for one in vars(room).values()
    if isinstance(one, type) and issubclass(one, Mistake) and "id" in vars(one)
}
# What docs/check.md puts side by side: the first letters of the ids.
GROUPS = {
    _("Scores and their scale"): "S",
    _("Softmax"): "X",
    _("Masks"): "M",
    _("Heads"): "H",
    _("Projections and cross-attention"): "PC",
    _("Positions"): "R",
    _("Cache"): "K",
    _("Layers that keep a state"): "L",
    _("Numbers, modules, training"): "NTEW",
}


def grouped() -> dict[str, list[type[Mistake]]]:
    """The mistakes of each group, by number."""
    order = sorted(CATALOGUE.values(), key=lambda one: int(one.id[1:]))
    return {
        title: [one for letter in letters for one in order if one.id[0] == letter] for title, letters in GROUPS.items()
    }
