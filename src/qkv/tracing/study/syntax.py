"""Which heads follow grammar: is a word's largest weight on the word that it belongs to?

On sentences with known grammar, count for every head and relation how often a word attends most to the right word, and how
often a fixed rule ("always the word before") would be right. Heads that don't beat the best rule are not listed: they may
follow positions, not grammar. `docs/patterns.md` says what else a number here does not mean.

L layers, H heads, N tokens, W words of a sentence.
"""

from __future__ import annotations

import difflib
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...attention.dispatch import Call
from ...i18n import Problem, _, language, say, unknown
from ...terminal import text_grid
from ..record.model_protocol import TraceRequest, model_of
from ..record.tokenizer_protocol import reader_of
from ..views.attention_maps import weights
from ..views.head_ranking import strongest
from ..views.token_labels import Tokens
from ..views.traces import Trace
from . import conllu
from .conllu import Sentence

OFFSETS = (-1, 1, -2, 2, -3, 3, -4, 4, -5, 5)
DIRECTIONS = ("head", "dependent")  # the word to find
SKIPPED = ("punct", "root", "dep")
SURE = 0.05
WILD = "\ufffc"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Relation:
    """A relation in one direction and language: every head's accuracy and that of fixed rules."""

    language: str
    name: str
    direction: str
    hits: np.ndarray = field(repr=False)  # bool (words, L, H)
    rules: dict[str, np.ndarray] = field(repr=False)  # "-1", "2", "first" → bool (words,)
    layers: tuple[int, ...] = ()  # the numbers of the L layers in the model, if not 0, 1, 2, …

    @property
    def count(self) -> int:
        """The number of words with this relation that can see the other word."""
        return len(self.hits)

    @property
    def accuracy(self) -> np.ndarray:
        """The accuracy of each head, (L, H)."""
        return self.hits.mean(0)

    @property
    def rule(self) -> str:
        """The fixed rule that is right most often: an offset in words, or "first" for the sentence's first word."""
        return max(self.rules, key=lambda name: self.rules[name].sum())

    @property
    def baseline(self) -> float:
        """The accuracy of that rule."""
        return float(self.rules[self.rule].mean())

    @property
    def chance(self) -> np.ndarray:
        """The probability, for each head (L, H), that one of all heads would beat the rule by as much by chance.

        A sign test on the words where head and rule differ, times the number of heads.
        """
        rule = self.rules[self.rule][:, None, None]
        wins, losses = (self.hits & ~rule).sum(0), (~self.hits & rule).sum(0)
        tries = wins.size
        tails = [
            min(1.0, tries * _binomial_tail(int(w), int(w + n))) for w, n in zip(wins.flat, losses.flat, strict=True)
        ]
        return np.array(tails).reshape(wins.shape)

    def above(self) -> list[tuple[int, int, float, float]]:
        """Return (layer, head, accuracy, chance) of heads more accurate than the best positional rule, most accurate first."""
        accuracy, chance = self.accuracy, self.chance
        winners = np.argwhere(accuracy > self.baseline + 1e-12)
        layers = self.layers or range(len(accuracy))
        rows = [(layers[i], int(j), float(accuracy[i, j]), float(chance[i, j])) for i, j in winners]
        return strongest(rows, lambda row: row[2])


@dataclass(frozen=True)
class SyntaxTable:
    """Heads × relations: `print` it, or use `relations` and `get`."""

    relations: list[Relation]
    sentences: int
    unaligned: int  # words left out because they have no token of their own
    model: str = ""

    def get(self, name: str, direction: str = "head", language: str | None = None) -> Relation:
        """Return a relation in one direction; the language may be left out if there is only one."""
        if direction not in DIRECTIONS:
            raise unknown("direction", direction, DIRECTIONS)
        for relation in self.relations:
            if (relation.name, relation.direction) == (name, direction) and language in (None, relation.language):
                return relation
        raise unknown("relation", name, dict.fromkeys(relation.name for relation in self.relations))

    @property
    def table(self) -> list[dict[str, object]]:
        """A row per relation and head that beats the best fixed rule."""
        return [
            dict(language=r.language, relation=r.name, direction=r.direction, layer=layer, head=head, accuracy=accuracy)
            | dict(count=r.count, baseline=r.baseline, rule=r.rule, chance=chance)
            for r in self.relations
            for layer, head, accuracy, chance in r.above()
        ]

    def show(self, lang: str | None = None, most: int = 4) -> str:
        """Return a line per relation and direction: the best fixed rule, and the heads above it."""
        lang = language(lang)
        lines = [
            say(
                "{model}, {n} sentences: how often a head's largest weight goes to the right word, where that beats "
                "the best fixed rule",
                lang,
                model=self.model or say("the model", lang),
                n=self.sentences,
            )
        ]
        named = [self._label(relation, lang) for relation in self.relations]
        margin = max(map(text_grid.width, named), default=0)
        for name, relation in zip(named, self.relations, strict=True):
            rule = say("first word", lang) if relation.rule == "first" else f"{int(relation.rule):+d}".replace("-", "−")
            rule_text = say(
                "{n} words, best fixed rule ({rule}) {share};",
                lang,
                n=f"{relation.count:>3}",
                rule=rule,
                share=f"{relation.baseline:.2f}",
            )
            rows = relation.above()
            heads = "  ".join(f"{a}.{b} {share:.2f}{'*' if p < SURE else ''}" for a, b, share, p in rows[:most])
            if len(rows) > most:
                heads += "  " + say("and {n} more", lang, n=len(rows) - most)
            heads = heads or say("no head above it", lang)
            lines.append(f"{text_grid.left(name, margin)}  {rule_text}  {heads}")
        if self.unaligned:
            lines.append(say("{n} words have no token of their own and were left out.", lang, n=self.unaligned))
        lines.append(
            say(
                "+1 is the next word, −1 the one before. * = such a lead would come to one of all heads by luck with "
                "a chance below {sure}; without it, take the number for a hint.",
                lang,
                sure=SURE,
            )
        )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.show()

    def _label(self, relation: Relation, lang: str) -> str:
        labels = (_("pronoun → noun"), _("noun → pronoun"))
        if relation.name != "coref":
            labels = (_("word → its head"), _("head → the word"))
        label = say(labels[DIRECTIONS.index(relation.direction)], lang)
        return f"{relation.language + ' ' if relation.language else ''}{relation.name} {label}"


def syntax(
    model: object,
    tokenizer: Any,
    sentences: str | Path | Iterable[Sentence] | None = None,
    *,
    relations: Sequence[str] | None = None,
    progress: Progress | None = None,
    least: int = 5,
) -> SyntaxTable:
    """Score every head of a model for grammatical relations.

    `sentences` are those that ship with qkv, one language of them ("en", "zh"), a CoNLL-U file, or `Sentence` objects.
    Weights are summed over the tokens of a key word and averaged over those of a query word. Of the other words of the
    sentence, the one with the largest weight counts as found. A pair counts if the word can see the other one and something
    else. Relations with fewer than `least` words are left out; `relations` names those to score (CoNLL-U's names, and
    "coref" for pronoun → noun). A decoder without a special token before the text gets a line break there, so that the
    attention sink isn't a word.
    """
    corpus = _load_sentences(sentences)
    if tokenizer is None:
        raise Problem("a text needs a tokenizer: pass tokenizer=, or give token ids")
    names = dict.fromkeys([w.relation for s in corpus for w in s.words if w.relation not in SKIPPED] + ["coref"])
    selected = list(names) if relations is None else list(relations)
    for name in selected:
        if name not in names and name not in SKIPPED:
            raise unknown("relation", name, names)

    adapter = model_of(model)
    is_seq2seq = adapter.kind == "encoder-decoder"

    def look(text: str) -> Trace:
        # Only an encoder-decoder needs a target, which its encoder doesn't see.
        return adapter.trace(TraceRequest(text, tokenizer, [text] if is_seq2seq else None))

    prefix = ""
    evidence: Evidence = {}
    unaligned = 0
    name = ""
    for done, sentence in enumerate(corpus):
        recorded = look(prefix + sentence.text)
        if done == 0 and recorded.parts == ["decoder"] and not recorded.tokens().special[0]:
            prefix = _line_break(look, sentence)
            recorded = look(prefix + sentence.text) if prefix else recorded
        groups = align(recorded.tokens(), sentence, reader_of(tokenizer).unknown)
        unaligned += sum(not group for group in groups)
        name = name or recorded.model
        _collect(evidence, sentence, selected, *_attended_words(recorded, groups))
        if progress is not None:
            progress(done + 1, len(corpus))
    return SyntaxTable(
        _relations(evidence, selected, least, recorded.layers() if evidence else ()), len(corpus), unaligned, name
    )


# (language, relation, direction) → for every pair of words, which heads and which fixed rules are right
Evidence = dict[tuple[str, str, str], tuple[list[np.ndarray], list[dict[str, bool]]]]


def _collect(
    evidence: Evidence, sentence: Sentence, selected: Sequence[str], attended: np.ndarray, visible: np.ndarray
) -> None:
    """Add the visible pairs of a sentence."""
    for relation, direction, a, b in _pairs(sentence, selected):
        if visible[a, b] and visible[a].sum() >= 2:
            hits, rules = evidence.setdefault((sentence.language, relation, direction), ([], []))
            hits.append(attended[:, :, a] == b)
            rules.append({str(o): a + o == b for o in OFFSETS} | {"first": b == 0})


def _relations(evidence: Evidence, selected: Sequence[str], least: int, layers: tuple[int, ...]) -> list[Relation]:
    """Return the relations with `least` pairs or more, in the order of `selected`."""
    order = {key: at for at, key in enumerate(selected)}
    relations = [
        Relation(*key, np.stack(hits), {r: np.array([row[r] for row in rules]) for r in rules[0]}, layers)
        for key, (hits, rules) in evidence.items()
        if len(hits) >= least
    ]
    return sorted(relations, key=lambda r: (r.language, order[r.name], r.direction != "head"))


def align(tokens: Tokens, sentence: Sentence, unk: int | None = None) -> list[list[int]]:
    """Return the tokens of every word, aligned by letters without accents and capitals.

    A token of several words belongs to the one with most of its letters. A word without tokens gets [].

    >>> align(Tokens(("do", "n't", " st", "op")), conllu.parse("1-2\\tdon't" + "\\t_" * 8 + "\\n1\\tdo\\t_\\t_\\t_\\t_\\t3\\taux\\t_\\t_\\n"
    ...     "2\\tn't\\t_\\t_\\t_\\t_\\t3\\tadvmod\\t_\\t_\\n3\\tstop\\t_\\t_\\t_\\t_\\t0\\troot\\t_\\t_\\n")[0])
    [[0], [1], [2, 3]]
    """
    units: list[range] = []
    unit_letters: list[str] = []  # the letters of each unit
    for text, first, end in tokens.whole:
        special = any(tokens.special[first:end])
        if not special or (unk is not None and tokens.ids[first : first + 1] == (unk,)):
            units.append(range(first, end))
            unit_letters.append(WILD if special else _letters(text))
    word_letters, covered = [], 0
    for word in sentence.words:
        word_letters.append("" if word.start < covered else _letters(sentence.text[word.start : word.end]))
        covered = word.end  # du: the first word gets all letters
    of_unit, of_word = (
        [i for i, letters in enumerate(side) for _letter in letters] for side in (unit_letters, word_letters)
    )
    votes: list[Counter[int]] = [Counter() for _unit in units]
    blocks = difflib.SequenceMatcher(None, "".join(unit_letters), "".join(word_letters), autojunk=False).get_opcodes()
    for kind, a, b, c, d in blocks:
        if kind == "equal":
            for unit, target in zip(of_unit[a:b], of_word[c:d], strict=True):
                votes[unit][target] += 1
        elif kind == "replace":  # [UNK], or letters that the tokenizer changed
            old_units, new_words = list(dict.fromkeys(of_unit[a:b])), list(dict.fromkeys(of_word[c:d]))
            if len(new_words) == 1 or len(new_words) == len(old_units):
                for at, unit in enumerate(old_units):
                    votes[unit][new_words[min(at, len(new_words) - 1)]] += 1
    groups: list[list[int]] = [[] for _ in sentence.words]
    for group, count in zip(units, votes, strict=True):
        if count:
            groups[count.most_common(1)[0][0]] += group
    return groups


def _attended_words(recorded: Trace, groups: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the word that each word attends to most, (L, H, W), −1 for none; and which words each may see, bool (W, W)."""
    part = recorded.parts[0]
    n, w = len(recorded.tokens(part)), len(groups)
    joins = torch.zeros(n, w, device="cpu")
    for i, group in enumerate(groups):
        joins[group, i] = 1
    sizes = joins.sum(0).clamp(min=1)
    real = torch.tensor([bool(group) for group in groups], device="cpu")
    other = ~torch.eye(w, dtype=torch.bool, device="cpu") & real & real[:, None]
    attended = []
    visible = torch.zeros(w, w, dtype=torch.bool, device="cpu")
    for call in recorded.calls[part]:
        assert isinstance(call, Call)
        shares, allowed, _ = weights(call, 0, slice(0, n))
        to = joins.to(shares)
        table = (to.T @ (shares @ to)).cpu()  # (H, W, W): sums, since means over queries have the same order
        pairs = (to.T @ (allowed.to(shares.dtype) @ to)).amax(0).cpu()
        visible |= (pairs == sizes[:, None] * sizes) & other
        table = table.masked_fill(~other, -1.0)
        best = table.max(-1)
        attended.append(best.indices.masked_fill(best.values <= 0, -1).numpy())
    return np.stack(attended), visible.numpy()


def _pairs(sentence: Sentence, selected: Sequence[str]) -> Iterable[tuple[str, str, int, int]]:
    """Yield (relation, direction, query word, right key word)."""
    for i, word in enumerate(sentence.words):
        links = [(word.relation, word.head), ("coref", word.coref)]
        for name, other in links:
            if other >= 0 and name in selected:
                yield name, "head", i, other
                yield name, "dependent", other, i


def _load_sentences(sentences: str | Path | Iterable[Sentence] | None) -> list[Sentence]:
    if sentences is None:
        return conllu.shipped()
    if isinstance(sentences, str) and sentences in conllu.LANGUAGES:
        return conllu.shipped([sentences])
    if isinstance(sentences, str | Path):
        return conllu.read(sentences)
    listed = list(sentences)
    if not listed:
        raise Problem('the text is empty: give at least one word, as in  qkv steps "我 爱 北京"')
    return listed


def _line_break(look: Callable[[str], Trace], sentence: Sentence) -> str:
    """Return a line break if the tokenizer has a token of its own for it, else ""."""
    try:
        tokens = look("\n" + sentence.text).tokens()
    except Problem:
        return ""
    return "\n" if tokens.whole and not tokens.whole[0][0].strip() else ""


def _letters(text: str) -> str:
    """Return the text without spaces, capitals, accents and wide forms."""
    apart = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in apart if not c.isspace() and unicodedata.category(c) != "Mn")


def _binomial_tail(wins: int, n: int) -> float:
    """Return the probability of `wins` heads or more in n tosses of a coin.

    >>> _binomial_tail(3, 3), _binomial_tail(0, 0)
    (0.125, 1.0)
    """
    return sum(math.comb(n, k) for k in range(wins, n + 1)) / 2**n
