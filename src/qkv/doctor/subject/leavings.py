"""What a call leaves behind in its object: buffers filled, counters moved on.

Code that reads a text piece by piece is then in the middle of it, and the next call goes on from there. Every probe means
a text from its beginning, so what a call changed is put back before the next one.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor, nn

DEEP = 3  # tuples of keys and values in a list of layers in a dict


class Leavings:
    """What an object holds beside its weights, as it was when this was made.

    >>> class Counter:
    ...     seen = 0
    >>> counter = Counter()
    >>> before = Leavings(counter)
    >>> counter.seen, counter.kept = 3, [1]
    >>> sorted(before.changed(counter))
    ['kept', 'seen']
    >>> before.restore(counter)
    >>> counter.seen, hasattr(counter, "kept")
    (0, False)
    """

    def __init__(self, owner: Any) -> None:
        self.kept = {path: {name: copied(value) for name, value in home.items()} for path, home in _homes(owner)}

    def changed(self, owner: Any) -> set[str]:
        """What holds something else now."""
        return {
            name
            for path, home in _homes(owner)
            for kept in [self.kept.get(path, {})]
            for name in home.keys() | kept.keys()
            if name not in home or name not in kept or not same(home[name], kept[name])
        }

    def restore(self, owner: Any) -> None:
        """Put it back, in the precision that it has by now."""
        places = dict(owner.named_modules()) if isinstance(owner, nn.Module) else {"": owner}
        for path, home in list(_homes(owner)):
            part = places[path[0]]
            kept = self.kept.get(path, {})
            inside: dict[str, Any] = part._buffers if path[1] == "buffers" else part.__dict__
            for name, value in home.items():
                if name not in kept:
                    del inside[name]
                elif not same(value, kept[name]):
                    inside[name] = _as(copied(kept[name]), value)
            for name in kept.keys() - home.keys():
                inside[name] = copied(kept[name])


def _homes(owner: Any) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Where it keeps what is no weight and no layer, part by part."""
    if not isinstance(owner, nn.Module):
        if hasattr(owner, "__dict__") and not isinstance(owner, type):
            yield ("", "own"), dict(vars(owner))
        return
    for path, part in owner.named_modules():
        yield (path, "buffers"), dict(part._buffers)
        yield (
            (path, "own"),
            {n: v for n, v in vars(part).items() if not n.startswith("_") and n not in ("training", "call_super_init")},
        )


def copied(value: Any, deep: int = DEEP) -> Any:
    """Arrays of its own, in tuples, lists and dicts too; anything else is the thing itself."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if deep and type(value) is dict:
        return {key: copied(one, deep - 1) for key, one in value.items()}
    if deep and type(value) in (list, tuple):
        return type(value)(copied(one, deep - 1) for one in value)
    return value


def same(one: Any, two: Any, deep: int = DEEP) -> bool:
    """Whether nothing in it changed.

    >>> same({"k": np.zeros(2), "t": 0}, {"k": np.zeros(2), "t": 0}), same([np.zeros(2)], [np.ones(2)])
    (True, False)
    """
    if one is two and not isinstance(one, (Tensor, np.ndarray)):
        return True
    if isinstance(one, Tensor) or isinstance(two, Tensor):
        return type(one) is type(two) and one.shape == two.shape and bool((one == two.to(one.dtype)).all())
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return type(one) is type(two) and np.array_equal(one, two)
    if deep and type(one) is dict and type(two) is dict:
        return one.keys() == two.keys() and all(same(one[key], two[key], deep - 1) for key in one)
    if deep and type(one) in (list, tuple) and type(two) is type(one):
        return len(one) == len(two) and all(same(a, b, deep - 1) for a, b in zip(one, two, strict=True))
    if isinstance(one, (int, float, str, bool, type(None))) or isinstance(two, (int, float, str, bool, type(None))):
        return type(one) is type(two) and bool(one == two)
    return one is two


def _as(kept: Any, now: Any) -> Any:
    if isinstance(kept, Tensor) and isinstance(now, Tensor) and kept.is_floating_point() and now.is_floating_point():
        return kept.to(now.dtype)
    return kept
