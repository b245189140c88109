"""Which line a mistake most likely sits on, and the patch for it, found by reading the code's tree.

The doctor knows from numbers *what* is wrong; these rules only look for *where*. Each rule yields places with a rank
(0 = this is how that mistake is written, 1 = likely, 2 = it must be about here); the best one in what was checked, or in
the helpers of the same file that it uses, is taken. A patch is made in the names of the code itself, and only where the
result is still Python.

>>> from types import SimpleNamespace
>>> text = "def attend(q, k, v):" + chr(10) + "    return torch.softmax(q @ k.mT, dim=-2) @ v"
>>> print(locate("X1", SimpleNamespace(text=text), "attend").diff)
- return torch.softmax(q @ k.mT, dim=-2) @ v
+ return torch.softmax(q @ k.mT, dim=-1) @ v
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .mistakes import CATALOGUE
from .source.trees import Code, open_code


class Place(NamedTuple):
    """A line, counted from 1, and the patch for it ("" where none can be made safely)."""

    line: int
    diff: str = ""


Rule = Callable[[Code, ast.AST], Iterator[tuple[int, Any, str]]]


def locate(
    id: str, source: Any, name: str | None = None, unused: Sequence[str] = (), mask_words: str | None = None
) -> Place | None:
    """Where the mistake `id` most likely is in what `name` names, or None where nothing looks like it."""
    try:
        code, rule = open_code(source), CATALOGUE[id].places
        if code is None:
            return None
        code.unused, code.mask_words = unused, mask_words
        return best(code, rule, code.uses(name)) or best(code, rule, [code.tree])
    except Exception:
        # Anybody's file comes here: a tree that surprises a rule costs the line, never the report.
        return None


def best(code: Code, rule: Rule, roots: list[ast.AST]) -> Place | None:
    """The place with the lowest rank, the earliest in reading order among equals."""
    found: list[tuple[int, int, int, Place]] = []
    for depth, root in enumerate(roots):
        try:
            for rank, node, diff in rule(code, root):
                line = node if isinstance(node, int) else node.lineno
                found.append((rank, depth, len(found), Place(line, diff)))
        except Exception:
            continue  # the same: what was found before still counts
    return min(found)[3] if found else None
