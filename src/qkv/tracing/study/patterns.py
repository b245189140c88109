"""Which head does what: every head of a trace scored for what heads are known to do, each score beside its baseline.

A kind of head is a set of keys that count for each query ("the key right before it"). Its score is the mean weight that
queries give to keys that count, over the queries that have a choice: that may see a key that counts and one that doesn't.
The baseline is what a head that spreads its weight evenly over all it may see would get; the lift is how far the head
goes from there to 1. `docs/patterns.md` has every kind's formula, and what a score does not mean.

H heads, H' heads whose masks differ (1 where all share one), N queries, M keys, R rows of a block, P places.
"""

from __future__ import annotations

import math
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...attention.dispatch import Call
from ...attention.rules import Full
from ...i18n import _, language, say, unknown
from ...mixers.calls import Mixing
from ...terminal import text_grid
from ..views import attention_maps
from ..views.attention_maps import weights
from ..views.head_ranking import strongest
from ..views.token_labels import PARTS, Tokens
from ..views.traces import Trace

LOCAL = 3  # keys at most this far away are near
COLUMNS = 3  # how many keys "a few keys that all look at" are
BAND = 0.1  # half the width of the diagonal, as a share of the keys
CLEAR = 0.6  # a head is named for a kind from this lift on …
MARGIN = 0.3  # … if it leads every rival by this
EVEN = 0.95  # … and uniform from this evenness on
FEW = 3  # fewer queries than this name nothing
PART = 0.2  # a kind with this lift is part of a mixed head

# Kinds in the order in which they are shown. Where one holds, a wider one that contains it holds too.
RARE = ("duplicate", "induction")  # only some queries can show them, and are judged on those alone
PLAIN = ("previous", "next", "self", "first", "punctuation", "diagonal")
WIDE = ("local", "columns", "monotone")
KINDS = (*PLAIN[:-1], "local", "columns", *RARE, "diagonal", "monotone", "uniform")
MEANING = _(
    "4.0 is layer 4, head 0, both counted from 0. "
    "A number is the mean weight on the keys that count (in brackets: of a head that spreads its weight evenly). "
    "It says where a head looks on this text, not what it is for."
)
CALLED = {
    "previous": _("previous token"),
    "next": _("next token"),
    "self": _("itself"),
    "first": _("first token (sink)"),
    "punctuation": _("punctuation, delimiters"),
    "local": _("local"),
    "columns": _("a few keys for all"),
    "duplicate": _("same token before"),
    "induction": _("induction"),
    "diagonal": _("diagonal"),
    "monotone": _("monotone alignment"),
    "uniform": _("uniform"),
    "mixed": _("mixed"),
    "none": _("none of these"),
}


OF_SELF = ("previous", "next", "self", "first", "punctuation", "local", "columns", *RARE, "uniform")
OF_CROSS = ("first", "punctuation", "columns", "diagonal", "monotone", "uniform")


@dataclass(frozen=True)
class Score:
    """One head and one kind: its score, what an even head would get, and over how many queries; NaN where none can tell."""

    value: float
    baseline: float
    count: int

    @property
    def lift(self) -> float:
        """0 for an even head, 1 for one that does nothing else: (score − baseline) / (1 − baseline)."""
        return (self.value - self.baseline) / (1 - self.baseline) if self.baseline < 1 else math.nan


@dataclass(frozen=True, repr=False)
class Row:
    """One head: its name (a kind, "mixed" or "none"), its score of every kind, and how far it looks."""

    layer: int
    head: int
    name: str
    scores: dict[str, Score]
    distance: float  # mean |query − key| in tokens, NaN in cross-attention
    keys: tuple[int, ...]  # the keys that most of its weight goes to
    mixture: tuple[str, ...] = ()  # the kinds that a mixed head is made of

    def __repr__(self) -> str:
        """Its name and what it is named for; `scores` has every number."""
        kinds = self.mixture or ((self.name,) if self.name in self.scores else ())
        return f"<Row {self.place} {self.name}{''.join(f' {k} {self.scores[k].value:.2f}' for k in kinds)}>"

    @property
    def place(self) -> str:
        """As heads are called: "13.8"."""
        return f"{self.layer}.{self.head}"


@dataclass(frozen=True, repr=False)
class Patterns:
    """Every head of one part of a model on one text; `print` it, or ask `table`, `best(kind)`, `named(kind)`."""

    table: list[Row]
    part: str
    tokens: Tokens  # those that are looked at
    model: str = ""
    padding: int = 0  # how many of them only fill up the batch

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that this part is scored for."""
        return OF_CROSS if self.part == "cross" else OF_SELF

    def named(self, kind: str) -> list[Row]:
        """The heads of this name, strongest first."""
        rows = [row for row in self.table if row.name == kind]
        return strongest(rows, lambda row: row.scores[kind].value) if kind in self.kinds else rows

    def best(self, kind: str, most: int = 5) -> list[Row]:
        """The heads with the highest score of a kind, whatever their name; none where the text can't show it."""
        self._check(kind)
        rows = [row for row in self.table if not math.isnan(row.scores[kind].value)]
        return strongest(rows, lambda row: row.scores[kind].value)[:most]

    def array(self, kind: str, what: str = "value") -> np.ndarray:
        """One number of a kind for every head, (layers, heads): its "value", "baseline", "count" or "lift"; NaN where a
        layer of the model has no attention."""
        self._check(kind)
        heads = 1 + max((row.head for row in self.table), default=-1)
        layers = 1 + max((row.layer for row in self.table), default=-1)
        made = np.full((layers, heads), np.nan)
        for row in self.table:
            made[row.layer, row.head] = getattr(row.scores[kind], what)
        return made

    def show(self, lang: str | None = None, most: int = 6, columns: int | None = None) -> str:
        """The heads by kind, with their scores and what an even head would get: at most `most` of each, and no more than
        fit into a line of the terminal (or of `columns`)."""
        lang = language(lang)
        lines = self._lines(lang)
        margin = max(text_grid.width(label) for label, *_ in lines)
        room = (columns or shutil.get_terminal_size((100, 24)).columns) - margin - 7
        shown = [
            f"{text_grid.left(label, margin)}  {count:>3}  {_fitting(heads, most, room, count, lang)}".rstrip()
            for label, count, heads in lines
        ]
        return "\n".join(
            [
                self._title(lang),
                *shown,
                say(MEANING, lang),
            ]
        )

    def __str__(self) -> str:
        return self.show()

    def __repr__(self) -> str:
        """One line, however many heads; `print` shows them by kind, `table` has every number."""
        counts = {kind: len(self.named(kind)) for kind in (*self.kinds, "mixed", "none")}
        kinds = ", ".join(f"{kind} {count}" for kind, count in counts.items() if count)
        return f"<Patterns of {self.model or 'a model'}: {self._title('en', named=False)}: {kinds}>"

    def _repr_html_(self) -> str:
        """How a notebook shows it: a row per kind."""
        lang = language()
        titles = (
            say(title, lang)
            for title in (_("looks at"), _("heads"), _("strongest: layer.head, score (of an even head)"))
        )
        rows = [
            f"<tr><th scope=row style='text-align: left'>{escape(label)}</th><td>{count}</td>"
            f"<td style='text-align: left'>{escape(_fitting(heads, 4, 10**6, count, lang))}</td></tr>"
            for label, count, heads in self._lines(lang)
        ]
        heading = "".join(f"<th scope=col style='text-align: left'>{escape(title)}</th>" for title in titles)
        return (
            f"<table><caption style='text-align: left'>{escape(self._title(lang))}</caption>"
            f"<thead><tr>{heading}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
            f"<p>{escape(say(MEANING, lang))}</p>"
        )

    def _title(self, lang: str, named: bool = True) -> str:
        part, tokens = say(PARTS[self.part], lang), len(self.tokens) - self.padding
        title = say("{part}, {heads} heads on {tokens} tokens", lang, part=part, heads=len(self.table), tokens=tokens)
        return f"{self.model}: {title}" if self.model and named else title

    def _lines(self, lang: str) -> list[tuple[str, int, list[str]]]:
        """A kind's name, how many heads are called so, and what is said of each; of none, why the nearest isn't."""
        label = {kind: say(CALLED[kind], lang) for kind in (*self.kinds, "mixed", "none")}
        lines = []
        for kind in self.kinds:
            rows = self.named(kind)
            heads = [self._told(row, kind, lang) for row in rows] or [self._nearest(kind, label, lang)]
            lines.append((label[kind], len(rows), heads))
        mixed = [
            row.place + "".join(f" {label[k]} {row.scores[k].value:.2f}" for k in row.mixture)
            for row in self.named("mixed")
        ]
        return [*lines, (label["mixed"], len(mixed), mixed), (label["none"], len(self.named("none")), [])]

    def _nearest(self, kind: str, label: dict[str, str], lang: str) -> str:
        """The head with the highest score of a kind that no head is named for, and what stood in its way."""
        best = self.best(kind, 1)
        if not best:
            return say("this text can't show it", lang)
        row, score = best[0], best[0].scores[kind]
        values = dict(head=self._told(row, kind, lang), kind=label[row.name], count=score.count)
        if score.count < FEW:
            why = _("highest: {head}, on {count} tokens only")
        elif kind == "uniform" and score.value < EVEN:
            why = _("highest: {head}, not even enough")
        elif kind != "uniform" and not score.lift >= CLEAR:
            why = _("highest: {head}, too near to an even head")
        else:  # a narrower kind says more: who looks at the token before also looks near
            why = (
                _("highest: {head}, but another kind comes close")
                if row.name == "none"
                else _("highest: {head}, counted as “{kind}”")
            )
        return say(why, lang, **values)

    def _told(self, row: Row, kind: str, lang: str) -> str:
        score = row.scores[kind]
        if kind == "uniform":
            return f"{row.place} {score.value:.2f}"
        more = ""
        if kind == "local":
            more = say(", mean distance {distance}", lang, distance=f"{row.distance:.1f}")
        elif kind == "columns":
            names = self.tokens.numbered
            more = " " + " ".join(f"{j}:{text_grid.clip(names[j], 12)}" for j in row.keys)
        return f"{row.place} {score.value:.2f} ({score.baseline:.2f}){more}"

    def _check(self, kind: str) -> None:
        if kind not in self.kinds:
            raise unknown("kind", kind, self.kinds)


def _fitting(heads: list[str], most: int, room: int, count: int, lang: str) -> str:
    """As many of the heads as there is room for, at least one; and how many are left out."""
    for shown in range(min(most, len(heads)), 0, -1):
        line = "  ".join(heads[:shown])
        if shown < count:
            line += "  " + say("and {n} more", lang, n=count - shown)
        if text_grid.width(line) <= room:
            break
    return line if heads else ""


@torch.no_grad()
def patterns(trace: Trace, *, part: str | None = None, batch: int = 0) -> Patterns:
    """Score every head of a part of a trace for every kind, from its exact weights.

    >>> from ...model.config import Config
    >>> from ...model.transformer import Transformer
    >>> from ..record.recorder import trace as look
    >>> _ = torch.manual_seed(0)
    >>> found = patterns(look(Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)), [3, 1, 4, 1, 5, 9, 2, 6]))
    >>> found.array("previous").shape, found.best("previous", 1)[0].scores["previous"].count
    ((2, 4), 7)
    """
    keys = trace.tokens(part, batch, keys=True)  # refuses a part or an item that isn't there
    part = trace.parts[0] if part is None else part
    queries = trace.tokens(part, batch)
    asking, seen = _real(trace, part, batch)
    credited: dict[torch.device, _Credited] = {}  # the layers of a large model may lie on several
    rows = []
    for layer, call in zip(trace.layers(part), trace.calls[part], strict=True):
        assert isinstance(call, Call)  # a mixer's rows are no shares
        here = call.q.device
        if here not in credited:
            credited[here] = _Credited(queries, keys, asking.to(here), seen.to(here), cross=part == "cross")
        rows += _layer(layer, call, batch, credited[here])
    return Patterns(rows, part, keys, trace.model, int((~seen).sum()))


class _Credited:
    """Which keys count for which query, for every kind: as columns that all rows share, or as pairs of a block of rows."""

    def __init__(self, queries: Tokens, keys: Tokens, asking: Tensor, seen: Tensor, *, cross: bool) -> None:
        self.n, self.m, self.cross = len(queries), len(keys), cross
        self.asking, self.seen = asking, seen  # which are not padding: (N,), (M,)
        self.device = seen.device  # where all that is computed here lies
        self.kinds = [k for k in (OF_CROSS if cross else OF_SELF) if k not in ("columns", "monotone", "uniform")]
        self.ids = identities(keys).to(self.device)
        first = int(seen.int().argmax()) if len(seen) else 0
        delimiters = [j for j in _delimiters(keys) if j != first and bool(seen[j])]
        self.columns = {"first": [first], "punctuation": delimiters}
        self._marks = torch.zeros(self.m, 2, device=self.device)
        for at, columns in enumerate(self.columns.values()):
            self._marks[columns, at] = 1
        self._keeps = (
            self.n * self.m <= attention_maps.BLOCK
        )  # what all layers share is found anew where it is too much to keep
        self._pairs: dict[int, dict[str, tuple[Tensor, Tensor]]] = {}
        self._even: dict[int, tuple[Tensor, dict[str, Tensor]]] = {}

    def places(self, rows: slice) -> Tensor:
        """Where these queries stand among the keys (self-attention; lower-right, as everywhere)."""
        return torch.arange(rows.start, rows.stop, device=self.device) + self.m - self.n

    def distance(self, rows: slice) -> Tensor:
        """|query − key|, (R, M)."""
        return (self.places(rows)[:, None] - torch.arange(self.m, device=self.device)).abs()

    def pairs(self, rows: slice) -> dict[str, tuple[Tensor, Tensor]]:
        """(row of the block, key) of every pair that counts, by kind; the same for every layer."""
        found = self._pairs.get(rows.start) or self._find(rows)
        if self._keeps:
            self._pairs[rows.start] = found
        return found

    def even(self, rows: slice, allowed: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
        """How many keys that count each row may see, by kind, and "size", how many at all: kind → (H', R).

        Most layers share one mask: the last answer is kept.
        """
        kept = self._even.get(rows.start)
        if kept is None or not torch.equal(kept[0], allowed):
            counted = allowed.to(dtype)
            kept = allowed, self.tally(counted, rows) | {"size": counted.sum(-1)}
            if self._keeps:
                self._even[rows.start] = kept
        return kept[1]

    def _find(self, rows: slice) -> dict[str, tuple[Tensor, Tensor]]:
        if self.cross:
            return {"diagonal": _apart(self._diagonal(rows))}
        at, keys = self.places(rows)[:, None], torch.arange(self.m, device=self.device)
        same = (self.ids[at.clamp(min=0)[:, 0]][:, None] == self.ids) & (keys < at)
        after = torch.zeros_like(same)
        after[:, 1:] = same[:, :-1]
        made = {"previous": at - 1 == keys, "next": at + 1 == keys, "self": at == keys}
        made |= {"local": (at - keys).abs() <= LOCAL, "duplicate": same, "induction": after & (keys < at)}
        return {kind: _apart(which) for kind, which in made.items()}

    def _diagonal(self, rows: slice) -> Tensor:
        """Keys as far into their text as the query is into its own, give or take BAND: bool (R, M)."""
        asked, asking = int(self.seen.sum()), int(self.asking.sum())
        # |i·(M − 1)/(N − 1) − j| ≤ width, in whole numbers: not every device has float64.
        along_keys = (self.seen.cumsum(0) - 1) * max(asking - 1, 1)
        along_queries = (self.asking.cumsum(0) - 1)[rows] * (asked - 1)
        wide = math.floor((max(1.0, BAND * asked) + 1e-9) * max(asking - 1, 1))
        return ((along_queries[:, None] - along_keys).abs() <= wide) & self.seen & (asking > 1)

    def tally(self, table: Tensor, rows: slice) -> dict[str, Tensor]:
        """What a table (H, R, M) holds at the keys that count, summed for each row: kind → (H, R)."""
        made = dict(zip(self.columns, (table @ self._marks.to(table.dtype)).unbind(-1), strict=True))
        for kind, (row, key) in self.pairs(rows).items():
            made[kind] = table.new_zeros(table.shape[:2]).index_add_(1, row, table[:, row, key])
        return made


def _apart(which: Tensor) -> tuple[Tensor, Tensor]:
    row, key = which.nonzero(as_tuple=True)
    return row, key


class _Path:
    """The best alignment that never goes back, grown row by row: max over a₁ ≤ a₂ ≤ … of Σ w[i, aᵢ]."""

    def __init__(self) -> None:
        self.best: Tensor | None = None  # (H, M): of paths that end at each key
        self.count = 0

    def grow(self, table: Tensor, counts: Tensor) -> None:
        for i in counts.nonzero()[:, 0].tolist():
            so_far = 0 if self.best is None else self.best.cummax(-1).values
            self.best = table[:, i] + so_far
            self.count += 1

    def value(self, head: int) -> float:
        """The mean weight along it."""
        return math.nan if self.best is None else float(self.best[min(head, len(self.best) - 1)].max()) / self.count


def _layer(layer: int, call: Call, item: int, credited: _Credited) -> list[Row]:
    """The rows of one layer: all its heads at once, a block of queries at a time."""
    heads = call.q.shape[1]
    found: dict[str, list[Tensor]] = {}
    columns: Tensor | float = 0.0
    even_columns: Tensor | float = 0.0
    path, even_path = _Path(), _Path()

    def keep(name: str, rows: Tensor) -> None:
        found.setdefault(name, []).append(rows)

    for rows in _blocks(heads, credited.n, credited.m):
        shares, allowed, entropy = weights(call, item, rows)  # (H, R, M), (H', R, M), (H, R)
        may = credited.even(rows, allowed, shares.dtype)
        counts = (may["size"] >= 2) & credited.asking[rows]  # (H', R)
        for kind, sums in credited.tally(shares, rows).items():
            keep(kind, sums)
            keep("may " + kind, may[kind])
        keep("size", may["size"])
        keep("counts", counts)
        keep("total", shares.sum(-1))
        keep("entropy", entropy)
        even = counts.to(shares.dtype) / may["size"].clamp(min=1)
        columns = columns + (counts.to(shares.dtype)[:, None] @ shares)[:, 0]  # (H, M)
        even_columns = even_columns + (even[:, None] @ allowed.to(shares.dtype))[:, 0]
        if credited.cross:
            path.grow(shares, counts.all(0))
            even_path.grow(allowed * even[..., None], counts.all(0))
        else:
            keep("distance", torch.einsum("hrm,rm->hr", shares, credited.distance(rows).to(shares.dtype)))
    if not found:
        return [Row(layer, h, "none", dict.fromkeys(_kinds(credited), UNTOLD), math.nan, ()) for h in range(heads)]
    joined = {name: _cat(parts).cpu().double().numpy() for name, parts in found.items()}  # (H or H', N)
    paths = (path, even_path) if credited.cross else None
    return _rows(layer, heads, joined, columns, even_columns, paths, credited)


def _cat(parts: list[Tensor]) -> Tensor:
    """Blocks of rows one after the other; where heads differ in one of them, they are told apart in all."""
    heads = max(map(len, parts))
    return torch.cat([part.expand(heads, -1) for part in parts], -1)


UNTOLD = Score(math.nan, math.nan, 0)


def _rows(
    layer: int,
    heads: int,
    found: dict[str, np.ndarray],
    columns: Any,
    even_columns: Any,
    paths: tuple[_Path, _Path] | None,
    credited: _Credited,
) -> list[Row]:
    counts, size, total = found["counts"] > 0, found["size"], found["total"]
    choice = {}
    baselines = {}
    for kind in credited.kinds:
        may = found["may " + kind]
        choice[kind] = counts & (may > 0) & (may < size)
        baselines[kind] = may / np.maximum(size, 1)
    # Entropy of what is not lost to a sink, times that share: a head that gives all to its sink is not an even one.
    evenness = np.clip(total * found["entropy"] / np.log(np.maximum(size, 2)), 0, 1)
    top = np.sort(columns.cpu().double().numpy(), -1)[:, ::-1][:, :COLUMNS].sum(-1)
    even_top = np.sort(even_columns.cpu().double().numpy(), -1)[:, ::-1][:, :COLUMNS].sum(-1)
    most = torch.topk(columns, min(COLUMNS, credited.m)).indices.tolist()

    made = []
    for h in range(heads):
        alike = min(h, len(counts) - 1)  # in what all heads of a layer share
        mine = counts[alike]
        n = int(mine.sum())
        scores = {kind: _mean(found[kind][h], baselines[kind][alike], choice[kind][alike]) for kind in credited.kinds}
        scores["columns"] = Score(top[h] / n, even_top[alike] / n, n) if n else UNTOLD
        scores["uniform"] = Score(float(evenness[h][mine].mean()), 1.0, n) if n else UNTOLD
        if paths is not None:
            best, even = paths
            scores["monotone"] = Score(best.value(h), even.value(h), best.count)

        def on(kind: str, which: np.ndarray, h: int = h, alike: int = alike) -> Score:
            return _mean(found[kind][h], baselines[kind][alike], choice[kind][alike] & which)

        rare = {kind: {k: on(k, choice[kind][alike]) for k in credited.kinds} for kind in RARE if kind in scores}
        name, mixture = _name(scores, rare)
        far = (
            float((found["distance"][h][mine] / np.maximum(total[h][mine], 1e-30)).mean())
            if n and not credited.cross
            else math.nan
        )
        order = {kind: scores[kind] for kind in _kinds(credited)}
        made.append(Row(layer, h, name, order, far, tuple(most[h]), mixture))
    return made


def _mean(shares: np.ndarray, even: np.ndarray, which: np.ndarray) -> Score:
    n = int(which.sum())
    return Score(float(shares[which].mean()), float(even[which].mean()), n) if n else UNTOLD


def _name(scores: dict[str, Score], rare: dict[str, dict[str, Score]]) -> tuple[str, tuple[str, ...]]:
    """The one kind that a head clearly is; "mixed" (and of what) where it is parts of several; else "none"."""

    def clear(kind: str, among: dict[str, Score], against: Sequence[str]) -> bool:
        lift = among[kind].lift
        rivals = [among[k].lift for k in against if k != kind and k in among]
        return among[kind].count >= FEW and lift >= CLEAR and all(not r > lift - MARGIN for r in rivals)

    # A head that waits at the first token until something repeats is known by what it does when something does.
    for kind, among in rare.items():
        if clear(kind, among, (*PLAIN, *RARE)):
            return kind, ()
    plain = [k for k in PLAIN if k in scores]
    for kind in plain:
        if clear(kind, scores, plain):
            return kind, ()
    if scores["uniform"].count >= FEW and scores["uniform"].value >= EVEN:
        return "uniform", ()
    if not any(scores[k].lift >= CLEAR for k in plain):  # then two kinds can't be told apart here
        wide = [k for k in WIDE if k in scores]
        for kind in wide:
            if clear(kind, scores, wide):
                return kind, ()
    parts = tuple(k for k in plain if scores[k].lift >= PART and scores[k].count >= FEW)
    return ("mixed", tuple(sorted(parts, key=lambda k: -scores[k].lift))) if len(parts) > 1 else ("none", ())


def _blocks(heads: int, n: int, m: int) -> Iterator[slice]:
    size = max(attention_maps.BLOCK // max(heads * m, 1), 1)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _kinds(credited: _Credited) -> tuple[str, ...]:
    return OF_CROSS if credited.cross else OF_SELF


def _real(trace: Trace, part: str, item: int) -> tuple[Tensor, Tensor]:
    """Which queries and which keys are not padding: (N,), (M,)."""
    keys = _unpadded(trace.keys[part][item]) & _visible(trace.calls[part][0], item)
    queries = _unpadded(trace.queries[part][item])  # about tokens, and so on the CPU, as labels are
    # Cross-attention's mask says nothing of its queries; the decoder that asks does.
    own = trace.calls.get("decoder" if part == "cross" else part)
    if own and own[0].k.shape[2] == len(queries):
        queries = queries & _visible(own[0], item)
    return queries, keys


def _visible(call: Call | Mixing, item: int) -> Tensor:
    """Keys that somebody may see, (M,)."""
    batch, heads, n, _ = call.q.shape
    m = call.k.shape[2]
    seen = torch.zeros(m, dtype=torch.bool, device="cpu")
    if isinstance(call.mask, Full):
        return ~seen
    for rows in _blocks(1, n, m):
        rule = call.mask.tensor(n, m, batch=batch, heads=heads, rows=rows, device="cpu")
        rule = rule[min(item, rule.shape[0] - 1)]
        seen |= rule.expand(rule.shape[0], rule.shape[1], m).any(0).any(0)
    return seen


def _unpadded(tokens: Tokens) -> Tensor:
    """Not filled up: recorders write [PAD], and ids may end where the text does. A <pad> that a decoder starts from is none."""
    real = [not (special and p == "[PAD]") for p, special in zip(tokens.pieces, tokens.special, strict=True)]
    if tokens.ids:
        real[len(tokens.ids) :] = [False] * (len(real) - len(tokens.ids))
    return torch.tensor(real, dtype=torch.bool, device="cpu")


def identities(tokens: Tokens) -> Tensor:
    """A number per token, the same for the same token: its id, or its text where there are no ids."""
    if tokens.ids:
        return torch.tensor([*tokens.ids, *range(-1, len(tokens.ids) - len(tokens) - 1, -1)], device="cpu")
    known: dict[str, int] = {}
    numbers = [known.setdefault(piece, len(known)) for piece in tokens.pieces]
    return torch.tensor(numbers, dtype=torch.long, device="cpu")


def _delimiters(tokens: Tokens) -> list[int]:
    """Tokens that are punctuation, a line end, or special."""
    found = {i for i, special in enumerate(tokens.special) if special}
    for text, first, end in tokens.whole:
        signs = text.strip(" ")
        if signs and all(unicodedata.category(c)[0] == "P" or c in "\n\r" for c in signs):
            found.update(range(first, end))
    return sorted(found)
