"""Labels of tokens: pieces, whole characters, words; special tokens; finding a token by its text.

A byte-level token may be part of a character, and a word may have many tokens. Groups of tokens are used to join a map:
weights are summed over the keys of a group and averaged over its queries.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
import warnings
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from ...i18n import Notice, Problem, _, all_of, unknown
from ...terminal.screen import plain

END, CUT = "■", "…"  # the end of a decoder's text, or where it was cut off (every font has ■, and none as an emoji)
Group = tuple[str, int, int]  # (text, first token, end)
# Parts of a model; mixers are layers of a decoder that keep a state instead of attending, with signed maps.
PARTS = {"encoder": _("encoder"), "decoder": _("decoder"), "cross": _("cross-attention"), "mixers": _("mixers")}
By = Literal["characters", "words", "tokens"]
BY: tuple[By, ...] = get_args(By)  # what a row or column of a map stands for
SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

# Characters that are words by themselves: 汉字, kana, fullwidth forms.
CJK = re.compile("[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]")


class NoSuchToken(Problem):
    """The requested word is not in the text."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of one text: their labels, and which are special ([CLS], padding, <|im_end|>)."""

    pieces: tuple[str, ...]
    special: tuple[bool, ...] = ()
    ids: tuple[int, ...] = ()
    whole: tuple[Group, ...] = field(default=())  # joined to whole characters

    def __post_init__(self) -> None:
        if not self.special:
            object.__setattr__(self, "special", (False,) * len(self.pieces))
        if not self.whole:
            object.__setattr__(self, "whole", tuple((p, i, i + 1) for i, p in enumerate(self.pieces)))

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def shown(self) -> list[str]:
        """A label per token, without spaces at its edges, line ends and tabs as symbols."""
        return [show(piece) for piece in self.pieces]

    @cached_property
    def numbered(self) -> list[str]:
        """The same, but tokens that are parts of a character show that character, numbered.

        >>> Tokens(("<E6><88>", "<91>", "a"), whole=(("我", 0, 2), ("a", 2, 3))).numbered
        ['我₁', '我₂', 'a']
        """
        labels = list(self.shown)
        for text, first, end in self.whole:
            if end - first > 1:
                labels[first:end] = [show(text) + str(i + 1).translate(SUBSCRIPT) for i in range(end - first)]
        return labels

    def groups(self, by: str = "characters") -> list[Group]:
        """Return the groups of a map's rows and columns: whole characters, words, or tokens."""
        if by not in BY:
            raise unknown("by", by, BY)
        if by == "words":
            return self.words
        if by == "tokens":
            return [(label, i, i + 1) for i, label in enumerate(self.numbered)]
        return [(show(text), first, end) for text, first, end in self.whole]

    @cached_property
    def words(self) -> list[Group]:
        """Tokens joined to words, split at spaces, around punctuation, and at every 汉字."""
        groups: list[Group] = []
        text, first, end = "", 0, 0
        for piece, begin, stop in self.whole:
            if text and (any(self.special[begin:stop]) or any(self.special[first:end]) or _is_word_end(text, piece)):
                groups.append((show(text), first, end))
                text, first = "", begin
            text, end = text + piece, stop
        return [*groups, (show(text), first, end)] if end > first else groups

    def ahead(self, end: str = END) -> Tokens:
        """Return a decoder's tokens labelled by the token that each position predicts: the next one, at the end ■."""
        padding = [special and piece == "[PAD]" for piece, special in zip(self.pieces, self.special, strict=True)]
        real = [i for i, empty in enumerate(padding) if not empty]
        if not real:
            return self
        first, last = real[0], real[-1]
        pieces, special = list(self.pieces), list(self.special)
        pieces[first : last + 1] = [*pieces[first + 1 : last + 1], end]
        special[first : last + 1] = [*special[first + 1 : last + 1], True]
        moved = [(text, a - 1, b - 1) for text, a, b in self.whole if first < a <= last]
        padding_groups = [group for group in self.whole if not first <= group[1] <= last]
        whole = sorted([*moved, (end, last, last + 1), *padding_groups], key=lambda group: group[1])
        return Tokens(tuple(pieces), tuple(special), self.ids, tuple(whole))

    def find(self, word: str) -> int:
        """Return the index of the token that a word names, see `places`; refuse a word that names several.

        >>> Tokens(("The", " cat", " and", " the", " cat", "s")).find("and")
        2
        """
        positions = self.places(word)
        if len(positions) > 1:
            raise self._ambiguous(word.strip(), positions)
        return positions[0]

    def is_part_of_character(self, word: str) -> bool:
        """True for the numbered label of a token that is only a part of a character.

        >>> tokens = Tokens(("<E6><88>", "<91>", "a"), whole=(("我", 0, 2), ("a", 2, 3)))
        >>> tokens.is_part_of_character("我₂"), tokens.is_part_of_character("我")
        (True, False)
        """
        label = re.sub(r"#\d+$", "", word.strip())
        return any(label in self.numbered[first:end] for _, first, end in self.whole if end - first > 1)

    def parts_of_characters(self) -> list[tuple[int, str]]:
        """Id and label of every token that is only a part of a character.

        >>> Tokens(("<E6><88>", "<91>", "a"), ids=(7, 5, 3), whole=(("我", 0, 2), ("a", 2, 3))).parts_of_characters()
        [(7, '我₁'), (5, '我₂')]
        """
        spans = [range(first, end) for _, first, end in self.whole if end - first > 1]
        return [(self.ids[i], self.numbered[i]) for span in spans for i in span if i < len(self.ids)]

    def places(self, word: str) -> list[int]:
        """Return the indices of all tokens that a word names.

        Searches the labels, then words and characters of several tokens, of which the last one counts, since there a decoder
        has read all of it. A number ("7") is an index, and "it#2" is the second "it". A word that is only part of a token
        names that token, with a notice.

        >>> Tokens(("<E6><88>", "<91>", "a"), whole=(("我", 0, 2), ("a", 2, 3))).places("我")
        [1]
        """
        label, which = word.strip(), None
        if numbered := re.fullmatch(r"(.+)#(\d+)", label):
            label, which = numbered[1], int(numbered[2])
        label = unicodedata.normalize("NFC", label)
        labels = zip(self.shown, self.numbered, strict=True)
        positions = [i for i, names in enumerate(labels) if label in map(_nfc, names)] or self._joined(label)
        if not positions and re.fullmatch(r"-?\d+", label) and -len(self) <= int(label) < len(self):
            return [int(label) % len(self)]
        if not positions and (positions := self._ends_inside(label)):
            used = [positions[which - 1]] if which is not None and 1 <= which <= len(positions) else positions
            tokens = ", ".join(f"{i} ({self.numbered[i]})" for i in used)
            warnings.warn(
                Notice("{word} is not a token by itself; used instead: {tokens}", word=label, tokens=tokens),
                stacklevel=2,
            )
        if not positions:
            raise self._unknown(word, label)
        if which is None:
            return positions
        if not 1 <= which <= len(positions):
            raise self._ambiguous(label, positions)
        return [positions[which - 1]]

    def _joined(self, label: str) -> list[int]:
        """Return the last token of each word, or sequence of characters, with this text."""
        if positions := [end - 1 for word_label, _, end in self.words if _nfc(word_label) == label]:
            return positions
        runs = [_nfc(_visible_whitespace(text)) for text, _, _ in self.whole]
        for first in range(len(runs)):
            joined = ""
            for last in range(first, min(first + len(label), len(runs))):
                joined += runs[last]
                if joined == label:
                    positions.append(self.whole[last][2] - 1)
        return positions

    def _ends_inside(self, label: str) -> list[int]:
        """Return the last token of each occurrence from one boundary of words or 汉字 to another.

        So 河 is in 的河, but "at" is not in "cat".
        """
        text = ""
        ends: list[int] = []  # where each group ends in the text
        for piece, first, end in self.whole:
            text += "\0" * len(piece) if any(self.special[first:end]) else piece
            ends.append(len(text))
        cuts = {0, len(text)} | {i for i in range(1, len(text)) if _is_boundary(text[i - 1], text[i])}
        spans = [match.span() for match in re.finditer(re.escape(label), text) if label]
        positions = [self.whole[bisect_left(ends, end)][2] - 1 for begin, end in spans if {begin, end} <= cuts]
        return list(dict.fromkeys(positions))

    def _unknown(self, word: str, label: str) -> NoSuchToken:
        labels = list(dict.fromkeys([name for name, _, _ in self.words] + self.numbered))
        similar = [name for name in labels if label and label in name][:3]
        similar = similar or difflib.get_close_matches(label, labels, n=3, cutoff=0.5)
        if similar:
            return NoSuchToken("{word} is not a token of the text; near ones: {near}", word=word, near=all_of(similar))
        sample = all_of([*labels[:12], *(["…"] if len(labels) > 12 else [])])
        return NoSuchToken("{word} is not a token of the text, whose tokens are: {tokens}", word=word, tokens=sample)

    def _ambiguous(self, word: str, positions: list[int]) -> Problem:
        return Problem(
            "{word} occurs {n} times, at {places}: say which, as in  {word}#2  or  the number of the token",
            word=word,
            n=len(positions),
            places=", ".join(map(str, positions)),
        )


def show(piece: str) -> str:
    """Return the label of a token: line ends and tabs as symbols, invisible characters (a joiner) as code points.

    >>> show(" cat"), show("\\n\\n"), show("  "), show("\u200d")
    ('cat', '⏎⏎', '␣␣', 'U+200D')
    """
    label = _visible_whitespace(piece)
    if any(unicodedata.category(c) not in ("Cf", "Cc", "Zl", "Zp", "Zs", "Mn") for c in label):
        return plain(label)
    return " ".join(f"U+{ord(c):04X}" for c in label)


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _visible_whitespace(piece: str) -> str:
    signs = piece.replace("\n", "⏎").replace("\r", "␍").replace("\t", "⇥")
    return signs.strip(" ") or "␣" * len(signs)


def _is_word_end(before: str, after: str) -> bool:
    """True if a word ends between these two pieces."""
    a, b = before[-1], after[0]
    if a.isspace() != b.isspace():
        return not before.isspace()  # spaces go with the word that follows them
    if CJK.match(a) or CJK.match(b):
        return True
    if unicodedata.category(b)[0] == "M" or b in "\u200d\ufe0f" or a == "\u200d":
        return False
    return _char_class(a) != _char_class(b) and not before.isspace()


def _is_boundary(a: str, b: str) -> bool:
    """True if a word may begin or end between these two characters."""
    return a.isspace() or b.isspace() or "\0" in (a, b) or _is_word_end(a, b)


def _char_class(c: str) -> str:
    if c in "'’":
        return "w"
    return "w" if c.isalnum() or c == "_" or unicodedata.category(c)[0] == "M" else "p"
