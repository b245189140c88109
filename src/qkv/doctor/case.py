"""One subject under examination: what was built, watched and matched so far; probes read it, the doctor fills it."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..i18n import Message, _, quoted
from .mistakes import CATALOGUE
from .numbers.guesses import Guess
from .numbers.match import Match
from .numbers.watching import Watched
from .report import Finding, Remark
from .source.says import Says
from .subject.errors import UserError, last_line
from .subject.formats import Format
from .subject.made import Made
from .subject.subject import Subject

if TYPE_CHECKING:
    from .probes.block import Parts
    from .probes.trials import View

# What each probe looks at, for the report.
PROBES = {
    "batch": _("texts beside each other in a batch"),
    "cache": _("its cache, one token at a time"),
    "cache in pieces": _("its cache, several tokens at a time"),
    "constant values": _("values that are all alike"),
    "chunks": _("where chunks meet"),
    "cost": _("what it costs"),
    "dropout": _("dropout"),
    "every input counts": _("whether every input counts"),
    "every weight counts": _("whether every weight counts"),
    "gradient": _("the gradient"),
    "growth": _("inputs twice as large"),
    "half": _("half precision"),
    "inputs untouched": _("whether inputs stay as they are"),
    "inventory": _("which projections it has"),
    "large": _("large scores"),
    "layers of their own": _("whether layers have weights of their own"),
    "lengths": _("other lengths"),
    "masks together": _("two masks at once"),
    "numbers": _("the numbers, one by one"),
    "order": _("shuffled tokens"),
    "other keys": _("keys of another number than queries"),
    "recurrence": _("the numbers, against the layer with a state"),
    "registered": _("whether all its weights are registered"),
    "repeat": _("the same call twice"),
    "rotary": _("rotary positions"),
    "scores": _("the scores"),
    "second call": _("a second call with another width"),
    "slopes": _("the slopes"),
    "state between calls": _("what one call leaves for the next"),
    "table": _("the table of positions"),
    "training": _("training mode"),
    "turn": _("the turn by positions"),
    "who sees whom": _("who sees whom"),
    "window": _("the width of the window"),
    "wiring": _("residuals and norms"),
    "with a memory": _("attention to a memory"),
}


def looked_at(name: str) -> Message:
    """What was looked at, in words: a probe, a mask argument, a flag the other way."""
    what, _space, which = name.partition(" ")
    if name in PROBES:
        return Message(PROBES[name])
    if what == "mask":
        return Message(_("the mask {parameter}"), parameter=which)
    return Message(_("it with {flag}"), flag=which)


@dataclass
class Found:
    """A mistake with its evidence: a sentence and the numbers in it."""

    id: str
    sentence: str
    values: dict[str, Any] = field(default_factory=dict)
    line: int | None = None
    certain: bool = True
    place: Any = None  # where running it patched proved that it stands


def rounded(error: float) -> float:
    """Up to the next power of ten, never below what float64 can tell: the same on every machine.

    >>> rounded(2.3e-16), rounded(4e-8)
    (1e-15, 1e-07)
    """
    return 10.0 ** max(-15, math.ceil(math.log10(error or 1e-15)))


@dataclass(frozen=True)
class Asked:
    """What the caller said, because it can't be guessed."""

    heads: int | None = None
    causal: bool | None = None
    mask_true_means: str | None = None  # "keep" or "block"
    args: dict[str, Any] | None = None  # of the constructor
    call: dict[str, str] | None = None  # {"q": "first_argument"}


@dataclass
class Case:
    """Everything known about the subject."""

    subject: Subject
    says: Says
    asked: Asked
    space: dict[str, Any]  # the globals that its code reads
    source: Any = None
    fresh: Any = None  # one that was never called
    kind: str = "attention"
    called: str = ""  # with which arguments, where that is not what its roles say
    # Numbers
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    lengths: tuple[int, int] = (0, 0)  # of queries and keys in these inputs
    support: np.ndarray | None = None  # (N, N): does output i move with input j?
    across: bool = False  # does one text's output move with another's?
    apart: bool = False  # no token's output moves with another token
    axes_confused: bool = False  # it attends over the batch, and doesn't say that this is the sequence
    watched: Watched | None = None
    guesses: list[Guess] = field(default_factory=list)
    match: Match | None = None
    heads: int = 1
    residual: bool = False  # the input itself is a summand of the output
    wiring: "Parts | None" = None  # norms and sublayers of a layer around attention
    # Masks
    made: list[Made] = field(default_factory=list)  # the masks that the file around it makes
    handed: list[Made] = field(default_factory=list)  # of them, those that it hands to the subject itself
    discovered: list[str] = field(default_factory=list)  # arguments that are masks by what they do, not by their names
    views: "dict[tuple[int, int], View | None]" = field(default_factory=dict)
    formats: dict[str, Format] = field(default_factory=dict)  # in which each mask argument is right
    defaults: list[str] = field(default_factory=list)  # masks in whose place the code's own triangle stands
    memory: str = ""  # the optional argument that was tried as one
    mask_format: str = ""
    mask_examples: list[dict[str, Any]] = field(default_factory=list)  # a padding mask for each, ready to hand over
    # The module around
    called_causal: bool = False  # by its name or by the words around it
    unused: list[str] = field(default_factory=list)  # weights without a gradient
    backward: BaseException | None = None  # what a gradient stopped with
    cache: str = ""  # the argument that a cache goes by
    flipped: dict[str, bool] = field(default_factory=dict)  # flags of the call that were set the other way
    # What came of it
    founds: list[Found] = field(default_factory=list)
    inner: list[Finding] = field(default_factory=list)  # in the parts that it is made of
    remarks: list[Remark] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    skipped: dict[str, Message] = field(default_factory=dict)  # what doesn't apply
    unseen: dict[str, Message] = field(default_factory=dict)  # what does, and was not looked at

    def other(self, subject: Subject, asked: Asked | None = None) -> "Case":
        """The same code run in another way."""
        kept = dict(source=self.source, made=self.made, discovered=self.discovered)
        return Case(subject, self.says, asked or self.asked, self.space, **kept)

    def add(
        self,
        id_: str,
        how: str = "",
        /,
        *,
        sentence: str = "",
        line: int | None = None,
        certain: bool = True,
        **values: Any,
    ) -> None:
        """Note a mistake, once; the sentence is the mistake's own for evidence seen in this way, unless it is given."""
        if "error" in values and isinstance(values["error"], float):
            values["error"] = rounded(values["error"])
        if not any(found.id == id_ for found in self.founds):
            self.founds.append(Found(id_, sentence or CATALOGUE[id_].evidence[how], values, line, certain))

    def remark(self, id_: str, sentence: str, /, line: int | None = None, **values: Any) -> None:
        """Note something worth knowing that is no mistake, once."""
        remark = Remark(id_, Message(sentence, **values), line)
        if remark not in self.remarks:
            self.remarks.append(remark)

    def miss(self, what: str, sentence: str, /, **values: Any) -> None:
        """Note what should have been looked at and could not be: with this the verdict is never "right"."""
        self.unseen.setdefault(what, Message(sentence, **values))

    def stopped(self, probe: str, error: BaseException) -> None:
        """Note a probe that applies, and that the user's code did not let through."""
        text = str(error) if isinstance(error, UserError) else last_line(error)
        self.miss(probe, _("{what}: stopped with {error}"), what=Message(PROBES[probe]), error=quoted(text))

    def has(self, *ids: str) -> bool:
        """Whether one of these was found."""
        return any(found.id in ids for found in self.founds)
