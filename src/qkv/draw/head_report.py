"""The text that `qkv see` prints: a summary of the trace, the heads that link two words, the map of a head and more.

Maps contain colour codes (print them with `terminal.screen.draw`); all else is plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..i18n import Problem, _, all_of, say
from ..mixers.calls import Mixing
from ..terminal import text_grid
from ..tracing.record.tokenizer_protocol import AnyTokenizer
from ..tracing.study.effects import Effect, without
from ..tracing.study.survey import Progress
from ..tracing.views.head_ranking import HeadLink, head_to_show, is_future_link, links
from ..tracing.views.token_labels import PARTS, By, Tokens
from ..tracing.views.traces import Trace
from ..tracing.views.word_map import locate_word, view
from . import derivation, mixer_derivation, terminal_map
from .derivation import as_text

MAX_TOKENS = 64  # tokens of a terminal map; longer ones are pooled


class HeadReport:
    """A report on one part of a trace; `from_` and `to` are the words to link, `by` the unit of a row."""

    def __init__(self, trace: Trace, part: str | None, by: By, from_: str | None, to: str | None) -> None:
        self.trace, self.part, self.by = trace, part or trace.parts[0], by
        self.from_, self.to = from_, to
        self.ranked: list[HeadLink] | None = None

    def check_words(self) -> None:
        """Raise if a word isn't in the text. Set `by` to "tokens" for parts of characters such as 岸₂."""
        for word, side in ((self.from_, False), (self.to, True)):
            if word is not None:
                self.trace.place(word, self.part, keys=side)
                if self.by != "words" and self.trace.tokens(self.part, keys=side).is_part_of_character(word):
                    self.by = "tokens"

    @property
    def focus(self) -> tuple[str, str] | None:
        """The two words, or None if no head can link them: causal heads don't look ahead."""
        if self.from_ is None or self.to is None:
            return None
        ahead = is_future_link(self.trace, self.from_, self.to, self.by, part=self.part)
        return None if ahead else (self.from_, self.to)

    @as_text
    def summary(self) -> Iterator[str]:
        """Return the trace's model, layers, heads and tokens."""
        trace, part = self.trace, self.part
        sides = self._sides()
        yield say(
            "{model} · {part}: {layers} layers × {heads} heads on {tokens} tokens (layers and heads count from 0)",
            model=trace.model,
            part=say(PARTS[part]),
            layers=trace.n_layer(part),
            heads=trace.n_head(part),
            tokens=_sizes(map(len, sides)),
        )
        layers = all_of(trace.layers(part))
        if "mixers" in trace.parts and len(trace.parts) > 1:
            other = "mixers" if part != "mixers" else trace.parts[0]
            message = _("These are layers {layers}; --part {other} shows {others}.")
            yield say(message, layers=layers, other=other, others=all_of(trace.layers(other)))
        elif part in trace.numbers and part != "mixers":
            yield say("Attention is in these layers alone: {layers}. The others have none.", layers=layers)
        group_counts = [len(side.groups()) for side in sides]
        split = group_counts != [len(side) for side in sides]
        if split and self.by == "characters" and max(group_counts) <= MAX_TOKENS:
            yield say(
                "(parts of characters are joined: {groups} characters and tokens; --tokens shows every token)",
                groups=_sizes(group_counts),
            )
        if part == "cross":
            yield f"  {_joined(sides[1])} → {_joined(sides[0])}"
            if limit := trace.more.get("cut"):
                yield say(
                    "(cut: after {most} tokens the translation had not ended; what is shown is its beginning)",
                    most=limit,
                )

    def link_table(self) -> str:
        """Return the heads that link the two words, strongest first, or why none can; "" without two words."""
        if self.from_ is None or self.to is None:
            return ""
        if self.focus is None:
            return say(
                "{model} is causal ({part}): {one} cannot look ahead to {other}, which comes later; swap --from and --to",
                model=self.trace.model,
                part=say(PARTS[self.part]),
                one=self.from_,
                other=self.to,
            )
        self.ranked = links(self.trace, self.from_, self.to, self.by, part=self.part)
        title = say("Heads that link {one} to {other} (layer.head from 0, weight):", one=self.from_, other=self.to)
        bars = _bars([weight for _, _, weight in self.ranked])
        rows = zip(self.ranked[:5], bars, strict=False)
        return "\n".join([title, *(f"  {layer:>3}.{head:<3} {bar}" for (layer, head, _), bar in rows)])

    def removed_head(self, names: Sequence[str] | None) -> tuple[int, int] | None:
        """Return the first layer and head of --without, if they are of this part."""
        match = re.fullmatch(rf"(?:{self.part}\.)?(\d+)\.(\d+)", (names or [""])[0])
        return None if match is None else (int(match[1]), int(match[2]))

    def choose(self, layer: int | None, head: int | None, progress: Progress | None = None) -> tuple[int, int]:
        """Return the head to show: the named one, else the strongest link of the two words, else the most telling."""
        return head_to_show(self.trace, self.part, layer, head, linked=self.ranked, progress=progress)

    @property
    def long(self) -> bool:
        """True if the map has more rows or columns than are shown."""
        return max(len(side.groups(self.by)) for side in self._sides()) > MAX_TOKENS

    @as_text
    def title(self, layer: int, head: int) -> Iterator[str]:
        """Return the title of the map."""
        # Rows of pooled cells or with a sink don't sum to 1.
        title = _("{part} layer {layer}, head {head}: each row is a token that looks, and its numbers add up to 1")
        if self.long:
            title = _("{part} layer {layer}, head {head}: tokens that look downwards, those looked at across")
        elif self.part == "mixers":
            title = _(
                "{part} layer {layer}, head {head}: each row is a token, and how much of every value it takes; below 0 is taken away, and rows don't add up to 1"
            )
        elif self.part == "cross":
            title = _(
                "cross layer {layer}, head {head}: each row is a token about to be said, and where in the source it looks (sum 1)"
            )
        elif not isinstance(call := self.trace.call(layer, self.part), Mixing) and call.sinks is not None:
            title = _(
                "{part} layer {layer}, head {head}: each row is a token that looks; its numbers and what its sink takes add up to 1"
            )
        yield say(title, layer=layer, head=head, part=say(PARTS[self.part]))
        if self.long:
            _bins, rows, cols = self._cells()
            yield say(
                "(a long text: each cell is the mean of {rows} × {cols} weights, shaded relative to the strongest cell)",
                rows=rows,
                cols=cols,
            )

    def map(self, layer: int, head: int) -> str:
        """Return the map in colours, pooled if the text is long."""
        if not self.long:
            mark = None
            if self.from_ is not None and self.to is not None:
                queries, keys = self._sides()
                mark = locate_word(queries, self.from_, self.by)[0], locate_word(keys, self.to, self.by)[0]
            return terminal_map.whole_map(view(self.trace, layer, head, self.by, part=self.part), mark)
        bins, rows, _cols = self._cells()
        table = self.trace.map(layer, head, bins=bins, part=self.part)
        top = max(float(abs(table).max()), 1e-9)
        starts = [str(i * rows) for i in range(table.shape[0])]
        return terminal_map.heatmap(table, starts, [""] * table.shape[1], top=top)

    def details(self, layer: int, head: int, *, patterns: bool) -> Iterator[str]:
        """Yield the texts below the map: the row of `from_`, the layer's experts, the patterns of every head."""
        if self.from_ is not None:
            row = (mixer_derivation if self.part == "mixers" else derivation).row
            yield row(self.trace, layer, head, self.from_, self.by, part=self.part)
        if self.part in ("encoder", "decoder") and f"{self.part}.{layer}" in self.trace.routing:
            yield self._experts(layer)
        if patterns:
            yield self.trace.patterns(part=self.part).show()

    @as_text
    def _experts(self, layer: int) -> Iterator[str]:
        """Return the experts that each token chose, for the first MAX_TOKENS tokens."""
        routing, tokens = self.trace.experts(layer, part=self.part), self.trace.tokens(self.part)
        yield say(
            "layer {layer}: the {each} of {count} experts that each token took, best first",
            layer=layer,
            each=routing.chosen.shape[1],
            count=routing.count,
        )
        words = tokens.numbered[:MAX_TOKENS]
        width = max(map(text_grid.width, words))
        for word, numbers, shares in zip(words, routing.chosen, routing.shares, strict=False):
            pairs = "  ".join(f"{n:>3} {s:4.0%}" for n, s in zip(numbers, shares, strict=True))
            yield f"  {text_grid.left(word, width)}  {pairs}"
        if len(tokens) > MAX_TOKENS:
            yield say("  … and {more} tokens more", more=len(tokens) - MAX_TOKENS)

    def without(self, model: Any, tokenizer: AnyTokenizer, heads: Sequence[str]) -> str:
        """Return what changes without these heads."""
        if model is None:
            raise Problem("--without needs the model itself, not a kept trace: give --model")
        return _effect_text(without(model, tokenizer, self.trace.text, heads), self.trace.tokens(keys=True))

    def coverage_notes(self, whole: dict[str, list[int]], layer: int | None) -> Iterator[str]:
        """Yield notes on the layers that didn't fit into the page; `layer` is the requested one."""
        if layer is not None and layer not in whole[self.part]:
            yield say(
                "Layer {layer} of the {part} did not fit into the page: it is only in the overview.",
                layer=layer,
                part=say(PARTS[self.part]),
            )
        for name in self.trace.parts:
            layers = self.trace.n_layer(name)
            if len(whole[name]) < layers:
                message = (
                    _(
                        "The page has room for these of the {layers} {part} layers in full: {whole}. The others are only in "
                        "the overview."
                    )
                    if whole[name]
                    else _(
                        "The page has no room for any of the {layers} {part} layers in full: they are only in the overview."
                    )
                )
                complete = all_of(whole[name]) if whole[name] else ""
                yield say(message, part=say(PARTS[name]), whole=complete, layers=layers)

    def link_growth(self, traces: Sequence[Trace], steps: Sequence[object], layer: int, head: int) -> str:
        """Return the weight between the two words at every evaluation of a run."""
        weights = []
        for trace in traces:
            row, col = (
                locate_word(trace.tokens(self.part, keys=side), word or "", self.by)[0]
                for word, side in ((self.from_, False), (self.to, True))
            )
            weights.append(float(view(trace, layer, head, self.by, part=self.part).weights[row, col]))
        bars = _bars(weights)
        return "\n".join(f"  {step:>7}  {bar}" for step, bar in zip(map(str, steps), bars, strict=True))

    def growth(
        self, traces: Sequence[Trace], steps: Sequence[object], layer: int, head: int
    ) -> Iterator[tuple[str, str]]:
        """Yield the first, middle and last evaluation of a run, each a title and the map."""
        for i in sorted({0, len(traces) // 2, len(traces) - 1}):
            if len(traces[i].tokens(self.part).groups(self.by)) <= MAX_TOKENS:
                word_map = view(traces[i], layer, head, self.by, part=self.part)
                yield say("step {step}", step=steps[i]), terminal_map.whole_map(word_map)

    def _sides(self) -> list[Tokens]:
        return [self.trace.tokens(self.part, keys=side) for side in (False, True)]

    def _cells(self) -> tuple[int, int, int]:
        """Return the number of bins of a long map, and the queries and keys per cell."""
        n_queries, n_keys = map(len, self._sides())
        bins = MAX_TOKENS
        while terminal_map.together(bins, [str(n_queries)]) > 1:  # larger cells for a narrow terminal
            bins -= 1
        return bins, -(-n_queries // bins), -(-n_keys // bins)


@as_text
def _effect_text(effect: Effect, tokens: Tokens) -> Iterator[str]:
    """Return a text that shows how the prediction changes without some heads; `tokens` are the tokens of the input."""
    heads = ", ".join(effect.heads)
    if effect.said is not None:
        message = (
            _("Without {heads} the translation stays the same: {before}")
            if effect.said[0] == effect.said[1]
            else _("Without {heads} the translation changes.\nbefore: {before}\nwithout: {after}")
        )
        yield say(message, heads=heads, before=effect.said[0], after=effect.said[1])
        return
    moved = f"{effect.moved:.0%}"
    yield say("Without {heads}, {moved} of the next token's probability goes elsewhere:", heads=heads, moved=moved)
    width = max((text_grid.width(word) for word, _, _ in effect.words), default=0)
    yield f"  {' ' * width}  {say('with it'):>7}  {say('without'):>7}"
    for word, before, after in effect.words:
        yield f"  {text_grid.left(word, width)}  {before:7.1%}  {after:7.1%}  {'█' * round(30 * after)}"
    for word, _before, _after in effect.words:
        if tokens.is_part_of_character(word) or re.fullmatch(r"(<[0-9A-F]{2}>)+", word):
            yield say("{token} is a part of a character, which other characters may share.", token=word)


def _bars(weights: Sequence[float]) -> list[str]:
    """Return each weight with a bar; a mixer's weights may exceed 1 or be negative."""
    longest = max(1.0, *map(abs, weights)) if weights else 1.0
    return [f"{weight:.2f}  {'█' * round(abs(weight) / longest * 30)}" for weight in weights]


def _sizes(sides: Iterable[int]) -> str:
    queries, keys = sides
    return f"{queries}" if queries == keys else f"{queries} × {keys}"


def _joined(tokens: Tokens) -> str:
    """Return the text again, without its special tokens."""
    return "".join(text for text, first, end in tokens.whole if not any(tokens.special[first:end])).strip()
