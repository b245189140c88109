"""Probes: each changes one thing about the input or the call and says what must then hold.

They need no weights, so they also speak where numbers can't be compared. Each has a name, a line on what it shows,
and is skipped, with the reason kept, where it doesn't apply.
"""

import re

import numpy as np
from torch import nn

from ...i18n import _, quoted
from ..case import Case
from ..mistakes.mistake import triangle
from ..mistakes.triangles import WrongTriangle
from ..numbers.watching import poked
from ..source.conventions import share_a_shape
from ..subject.capture import named
from ..subject.errors import UserError, line_of
from ..subject.guess import meaning
from ..subject.subject import Fitted
from ..subject.values import signature, to_numpy
from .probe import probe, size_of, skip
from .structure import sees_only_future, support

PATTERN = _("which tokens see which: a pattern of its own, which nothing here says is the right one")


@probe("who sees whom")
def who_sees_whom(case: Case) -> None:
    """The pattern of which output moves with which input: whole, a triangle, a band; or a mistake."""
    seen = case.support
    if seen is not None and seen.shape[0] != seen.shape[1]:
        if _offsets(seen) is None:
            case.miss("pattern", PATTERN)
    if seen is None or seen.shape[0] != seen.shape[1]:
        return skip(case, "who sees whom", _("keys of their own"))
    n = len(seen)
    lower, upper = triangle(n, n, "causal"), triangle(n, n, "transposed")
    wants = case.asked.causal
    hint = wants if wants is not None else case.called_causal
    if case.has("H1", "H2", "H3"):
        return skip(case, "who sees whom", _("tokens are mixed"))
    hidden = case.match is not None and any(piece.inner for piece in case.match.variant.form.pieces)
    if hidden and not _by_distance(seen):  # else the softmax itself left nothing for some
        case.miss("pattern", PATTERN)
    if seen.all() and case.says.bare_fill and not case.has("M2", "M3") and not case.subject.masks:
        case.add("M2", "causal", line=case.says.bare_fill)
        return None
    if not np.triu(seen, 1).any():
        _other_roads(case)
    if np.array_equal(seen, lower):
        if wants is False:
            case.add("M6", sentence=_("tokens don't see what comes after them, though this was said not to be causal"))
        return None
    if not np.any(seen & ~lower):  # within the triangle
        if np.array_equal(seen, triangle(n, n, "strict")):
            case.add("M12", "strict")
        elif np.array_equal(seen, np.eye(n, dtype=bool)):
            skip(case, "who sees whom", _("tokens don't meet"))
        return None
    if np.array_equal(seen, triangle(n, n, "ahead")):
        case.add("M12", "ahead")
    elif np.array_equal(seen, upper):
        case.add("M12", sentence=WrongTriangle.evidence["transposed"])
    elif sees_only_future(case):
        case.add("M1", "triangle")
    elif seen.all():
        if hint and not case.has("X7", "M7", "M8", "M9", "M12", "M2", "M3") and not _explained(case):
            _no_triangle(case)
    return None


def _by_distance(seen: np.ndarray) -> bool:
    """True if who sees whom depends on nothing but how far apart they are: all, a triangle, a band without gaps.

    >>> band = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) <= 1
    >>> _by_distance(band), _by_distance(np.tril(band)), _by_distance(np.tril(np.ones((5, 5), bool), 1)), _by_distance(band[::-1])
    (True, True, False, False)
    """
    offsets = _offsets(seen)
    return offsets is not None and offsets[1] in (0, len(seen) - 1, -offsets[0])


def _offsets(seen: np.ndarray) -> tuple[int, int] | None:
    """The first and the last distance at which tokens are seen, if all between them are and no others; else None."""
    n, m = seen.shape
    diagonals = {offset: np.diagonal(seen, offset) for offset in range(1 - n, m)}
    if any(diagonal.any() != diagonal.all() for diagonal in diagonals.values()):
        return None
    offsets = [offset for offset, diagonal in diagonals.items() if diagonal.all()]
    return (offsets[0], offsets[-1]) if offsets and len(offsets) == offsets[-1] - offsets[0] + 1 else None


def _other_roads(case: Case) -> None:
    """M6: what hides the future hides it too with a flag of the call the other way, and where a text ends in padding."""
    subject, inputs = case.subject, case.inputs
    parameters = signature(subject.function).parameters
    flags = [
        p
        for p, r in subject.roles.items()
        if r == "flag" and isinstance(parameters[p].default, bool) and not re.search(r"caus|mask|autoreg|cache", p)
    ]
    place = len(case.support) - 3 if case.support is not None else 0
    roads: list[tuple[str, dict[str, np.ndarray], dict[str, bool]]] = [
        (f"{flag}={not parameters[flag].default}", inputs, {flag: not parameters[flag].default}) for flag in flags[:3]
    ]
    if subject.layout == "ids":
        for pad in (0, 1):
            padded = {r: a.copy() for r, a in inputs.items()}
            padded[subject.inputs[0]][0, -2:] = pad
            roads.append((f"padding {pad}", padded, {}))
    for road, given, switched in roads if place > 0 and not subject.crosses else ():
        try:
            one, two = (subject(i, switched).output for i in (given, poked(subject, given, place)))
        except UserError:
            continue
        if one.shape == two.shape and np.abs(one - two)[0, ..., :place, :].max() > 1e-9 * size_of(one):
            case.add("M6", "road", road=road)
            return


def _explained(case: Case) -> bool:
    return case.match is not None and bool(set(case.match.variant.ids) & {"X7", "M7", "M8", "M9", "M12", "X1", "M2"})


def _no_triangle(case: Case) -> None:
    bare = case.says.bare_fill
    if bare:
        case.add("M2", "causal", line=bare)
    elif _hides_before_a_softmax(case):
        case.miss(
            "triangle",
            _("the causal mask: scores are hidden before a softmax, and yet every token sees those after itself"),
        )
    elif not case.subject.masks or case.asked.causal or _takes_padding_alone(case):
        case.add("M14")


def _takes_padding_alone(case: Case) -> bool:
    """True if every mask that it takes hides keys of whole texts, (B, m) or lengths: no triangle can be handed over."""
    formats = [case.formats.get(parameter) for parameter in case.subject.masks]
    return all(one is not None and one.shape in ("bm", "lengths") for one in formats)


def _hides_before_a_softmax(case: Case) -> bool:
    """True if a softmax takes scores of which the later keys are hidden: what undoes that comes after the mask."""
    seen = case.watched.result.seen if case.watched is not None else None
    n = case.lengths[0]
    for scores, _axis, _shares in getattr(seen, "softmaxes", ()):
        if scores.shape[-2:] == (n, n):
            above = to_numpy(scores)[..., *np.triu_indices(n, 1)]
            if (above < -1e3).all():
                return True
    return False


@probe("window")
def window(case: Case) -> None:
    """A band is as wide as was asked for: W tokens with the token itself, unless the code says W before it."""
    subject = case.subject
    given = subject.declared.get("window") or subject.chosen.get("window") or _asked(case)
    asked = given if isinstance(given, int) else 0
    limit = int(subject.chosen.get("context") or 99)
    crosses = subject.crosses and "k" not in subject.inputs
    if not asked or crosses or 2 * asked + 3 > limit or asked > 16:
        return skip(case, "window", _("no window"))
    seen, _across = support(
        subject, subject.draw(6, n=2 * asked + 3), None, [r for r in subject.inputs if r in ("k", "v")] or None
    )
    if seen.shape[0] != seen.shape[1]:
        return skip(case, "window", _("keys of their own"))
    middle, last = int(seen[asked + 1].sum()), int(seen[-1].sum())
    text = case.says.text
    says = re.search(
        r"itself (included|and)|own (position|token) included|current (one|token) included|including (itself|the current)|window(_size)? - 1|`window\w*` (keys|tokens)|last `?window",
        text,
    )
    fits = (
        {asked, 2 * asked + 1, 2 * asked - 1, asked | 1}
        if says
        else {asked, asked + 1, 2 * asked, 2 * asked + 1, 2 * asked - 1, asked | 1}
    )
    widest = int(seen.sum(-1).max())
    if re.search(r"(neighbou?rs|tokens|positions|steps) (to|on) the left and (to |on )?(the )?right", text):
        fits = {2 * asked + 1}  # that many on each side, and itself
    if seen.all():
        return skip(case, "window", _("everything is seen"))
    if says and not np.triu(seen, 1).any():
        fits = {asked}
    if widest not in fits:
        case.add("M21", asked=asked, seen=max(middle, last, widest))
    return None


def _asked(case: Case) -> int | None:
    """The width that is an argument of the call, with a number of its own or with the one that we passed."""
    parameters = signature(case.subject.function).parameters
    for name, parameter in parameters.items():
        given = case.subject.fixed.get(name, parameter.default)
        if type(given) is int and given > 0 and (meaning(name) == "window" or re.search(r"sided|radius|band", name)):
            return given
    return None


@probe("batch")
def batch(case: Case) -> None:
    """A text's output doesn't depend on the texts beside it, nor on its place among them."""
    if not case.across:
        return _place_in_batch(case)
    if case.match is not None and case.match.variant.ids:
        return None
    if case.axes_confused:
        case.add("H9")
        return None
    subject, inputs = case.subject, case.inputs
    if _runs_over_texts(case):
        case.add("H9")
        return None
    if subject.layout in ("bnc", "nbc", "ids"):
        seen = case.support
        if seen is not None and seen.shape[0] == seen.shape[1] and np.array_equal(seen, np.eye(len(seen), dtype=bool)):
            case.add("H9")
            return None
    if not case.has("X2", "H3", "H9", "H1", "H2"):
        axis = _softmax_axis(case)
        alone = {r: a[:1] for r, a in inputs.items()}
        together = subject(inputs).output[:1]
        try:
            difference = float(np.abs(subject(alone).output - together).max() / size_of(together))
        except UserError:
            difference = float("nan")
        case.add(
            "X2" if axis == "batch" else "H3",
            sentence=_(
                "a text computed alone and in a batch differ by {change:.1%}: its output depends on the texts beside it"
            ),
            change=difference,
        )
    return None


def _place_in_batch(case: Case) -> None:
    """R3: the same text in every place of a batch gives the same output, unless positions are counted along the batch."""
    subject, inputs = case.subject, case.inputs
    if case.founds or subject.layout not in ("bnc", "nbc", "ids"):
        return
    if any(hasattr(given, "shape") and len(given.shape) > 2 for given in subject.fixed.values()):
        return  # a mask or a table of our own, which may differ from text to text
    if any(isinstance(given, Fitted) for given in subject.fixed.values()):
        return  # so may what the file itself hands over
    alike = subject({r: np.repeat(a[:1], len(a), 0) for r, a in inputs.items()}).output
    change = float(np.abs(alike - alike[:1]).max() / size_of(alike))
    if change > 1e-6:
        case.add("R3", "place", change=change)


def _runs_over_texts(case: Case) -> bool:
    """Whether torch's own attention, or a softmax over squares, runs over as many as there are texts, not tokens."""
    size = case.subject.sizes.batch
    seen = case.subject(case.inputs, watch=True).seen
    if seen is None or case.subject.layout == "nbc" or size in case.lengths:
        return False
    squares = [tuple(scores.shape[-2:]) for scores, _, _ in seen.softmaxes]
    return size in getattr(seen, "along", ()) or (size, size) in squares


def _softmax_axis(case: Case) -> str:
    """Which axis the softmax that ran was taken over, by its size: keys, queries, heads or batch."""
    result = case.subject(case.inputs, watch=True)
    if result.seen is None or not result.seen.softmaxes:
        return ""
    scores, _, weights = result.seen.softmaxes[0]
    sums = [axis for axis in range(weights.dim()) if np.allclose(to_numpy(weights).sum(axis), 1)]
    if not sums:
        return ""
    size = scores.shape[sums[0]]
    sizes = case.subject.sizes
    n, m = case.lengths
    return {sizes.batch: "batch", sizes.heads: "heads", **({n: "queries"} if n != m else {})}.get(size, "")


@probe("order")
def order(case: Case) -> None:
    """Without positions and masks, shuffled tokens give shuffled outputs; six copies of a token give one and the same."""
    if (
        case.match is not None
        or case.support is None
        or not case.support.all()
        or case.has("T1", "T3")  # random numbers
        or case.subject.layout not in ("bnc", "nc")
    ):
        return skip(case, "order", _("not needed"))
    subject, inputs = case.subject, case.inputs
    if case.across or _knows_places(case):
        return skip(case, "order", _("positions inside"))
    n = case.lengths[0]
    asking = [r for r in inputs if r in ("x", "q")]
    if "memory" in inputs and asking and not _all_or_none(support(subject, inputs, None, asking)[0]):
        return skip(case, "order", _("tokens of its own, and not all of them"))
    shuffled = np.random.default_rng(4).permutation(n)
    base = subject(inputs).output
    other = subject({r: a[:, shuffled] if a.shape[1] == n else a for r, a in inputs.items()}).output
    difference = float(np.abs(other - base[:, shuffled]).max() / size_of(base))
    one = {r: np.repeat(a[:, :1], a.shape[1], 1) for r, a in inputs.items()}
    rows = subject(one).output
    spread = float(np.abs(rows - rows[:, :1]).max() / size_of(rows))
    if difference > 1e-6 and spread > 1e-6:
        case.add(
            "H2",
            sentence=_(
                "shuffled tokens should give shuffled outputs, but they differ by {change:.1%}; copies of one token give outputs that differ by {spread:.1%}: numbers of different tokens are mixed where heads are cut or put together"
            ),
            change=difference,
            spread=spread,
            certain=False,
        )
    return None


def _all_or_none(seen: np.ndarray) -> bool:
    return bool(seen.all() or np.array_equal(seen, np.eye(*seen.shape, dtype=bool)))


def _knows_places(case: Case) -> bool:
    """Whether numbers go in beside those of the tokens that may speak of places: 0, 1, 2… made in the run, or weights
    that are neither a product's with tokens nor a norm's."""
    subject, owner = case.subject, case.subject.owner
    seen = subject(case.inputs, watch=True).seen
    if seen is None or not isinstance(owner, nn.Module):
        return False
    known = {named(owner, product.weight) for product in seen.products}
    others = [
        n
        for n, p in [*owner.named_parameters(), *owner.named_buffers()]
        if p.dim() >= 2 and n not in known and p.shape[-1] > 1
    ]
    return bool(seen.places or others)


@probe("lengths")
def lengths(case: Case) -> None:
    """Other lengths run too: 1, 3, 9."""
    subject = case.subject
    if any(r in ("frequencies", "positions", "start") for p, r in subject.roles.items() if p in subject.fixed):
        return skip(case, "lengths", _("tables of one length"))
    n = case.lengths[0]
    if any(n in getattr(v, "shape", ()) for v in subject.fixed.values()):
        return skip(case, "lengths", _("a mask of one length"))
    if any(isinstance(v, Fitted) for v in subject.fixed.values()):
        return skip(case, "lengths", _("what its file hands over is for its own lengths"))
    if isinstance(subject.chosen.get("window"), tuple) or subject.patch:
        return skip(case, "lengths", _("a window of an image"))
    limit = subject.chosen.get("context") or 99
    stopped: dict[int, UserError] = {}
    tried = [n for n in (1, 3, 9) if n <= limit]
    for n in tried:
        try:
            subject(subject.draw(3, n=n, m=n))
        except UserError as error:
            if not (subject.inner and error.line is None):  # else it ran: its tokens were not found side by side
                stopped[n] = error
    if not stopped:
        return None
    n, first = next(iter(stopped.items()))
    if (set(stopped) <= {1} and len(tried) > 1) or all(_declared(e.error) for e in stopped.values()):
        case.stopped("lengths", first)  # other lengths run, or the code says itself which do
    else:
        case.add("M20", n=n, worked=case.lengths[0], error=str(first), line=first.line)
    return None


def _declared(error: BaseException) -> bool:
    """Whether the user's own code says no, by assert or raise."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return isinstance(error, AssertionError | ValueError | NotImplementedError) and line_of(error) == (
        frame.tb_lineno if frame else None
    )


RESHAPED = r"shape '\[.*\]' is invalid for input of size|cannot reshape array|split_with_sizes|can't divide axis"


@probe("other keys")
def other_keys(case: Case) -> None:
    """As many keys as one likes: keys of another number than queries."""
    subject = case.subject
    if not subject.crosses:
        return skip(case, "other keys", _("self-attention"))
    if subject.layout == "ids":  # a whole model: which of its parts is to blame can't be told, so nothing is claimed
        subject(subject.draw(2, n=subject.sizes.queries, m=subject.sizes.keys))
        return None
    if any(
        subject.roles.get(p) in ("mask", "frequencies", "positions") and v is not None for p, v in subject.fixed.items()
    ):
        return skip(case, "other keys", _("a mask or a table of one length"))
    if case.support is not None and case.support.shape[0] == case.support.shape[1] and not case.support.all():
        return skip(case, "other keys", _("causal"))
    if case.match is not None and (case.match.base.rotary or case.match.base.slopes):
        return skip(case, "other keys", _("positions of one text"))
    n, m = subject.sizes.queries, subject.sizes.keys
    try:
        subject(subject.draw(2, n=n, m=m))
    except UserError as error:
        text = str(error)
        if re.search(rf"gave Tensor\({subject.sizes.batch}, {m},", text) and not case.has(
            "H1", "H2", "H3", "H9", "P1", "P2"
        ):
            if all(len(p) > 1 or p in "QKVqkv" for p, r in subject.roles.items() if r in ("q", "k", "v", "memory")):
                case.add("C5", n=n, m=m)
            else:  # a single letter such as `z` may be either
                case.miss("other keys", _("which of two texts asks: their names don't say it"))
        elif re.search(RESHAPED, text) and not case.has("H1", "H2", "H3", "H9", "P1", "P2"):
            if share_a_shape(case.says.segment):
                case.stopped("other keys", error)
                return None
            case.add("C3", n=n, m=m, error=text, line=error.line)
        else:  # a design for one length, such as a convolution or relative positions, stops elsewhere
            case.remark(
                "C3",
                _("it takes as many keys as queries: with {n} queries and {m} keys it stops with {error}"),
                line=error.line,
                n=n,
                m=m,
                error=quoted(text),
            )
    return None


@probe("large")
def large(case: Case) -> None:
    """Scores of a few thousand give no NaN."""
    subject = case.subject
    if subject.layout == "ids":
        return skip(case, "large", _("tokens"))
    if case.apart:
        return skip(case, "large", _("not needed"))  # no weights over tokens
    base = subject(case.inputs).output
    if not np.isfinite(base).all():
        return None
    result = subject({r: a * 300 for r, a in case.inputs.items()}).output
    if not np.isfinite(result).all() and not case.has("X6"):
        case.add("X5", bad=float(np.mean(~np.isfinite(result))) * 100)
    _own_fill(case)
    return None


def _own_fill(case: Case) -> None:
    """M19: what the code's own triangle hides stays hidden at large scores."""
    subject, seen = case.subject, case.support
    if seen is None or seen.shape[0] != seen.shape[1] or np.triu(seen, 1).any() or case.founds or len(seen) < 3:
        return
    fill = case.says.fill
    if case.says.text and (fill is None or not -1e6 < fill < 0):
        return  # no such number is written there
    last = len(seen) - 1
    for gain in (60, 600):
        loud = {r: a * gain for r, a in case.inputs.items()}
        louder = {r: a.copy() for r, a in loud.items()}
        for array in louder.values():
            array[:, ..., last, :] *= -3
        one, two = subject(loud).output, subject(louder).output
        change = np.abs(one - two)[..., :last, :].max() / size_of(one)
        if np.isfinite(change) and change > 1e-6:
            case.add("M19", change=float(change))
            return


@probe("growth")
def growth(case: Case) -> None:
    """Twice the input gives at most about twice the output: weights stay weights."""
    subject = case.subject
    if case.match is not None or subject.layout == "ids" or case.residual or case.apart:
        return skip(case, "growth", _("not needed"))
    inputs = case.inputs
    one, two = (size_of(subject({r: a * g for r, a in inputs.items()}).output) for g in (20.0, 40.0))
    if two / one > 5:
        case.add("X6", "growth", growth=two / one)
    return None


@probe("constant values")
def constant_values(case: Case) -> None:
    """Rows of weights sum to 1: values that are all alike come out as they are."""
    subject = case.subject
    if case.match is not None or case.watched is None or case.watched.projected or "v" not in subject.inputs:
        return skip(case, "constant values", _("not needed"))
    moved = np.abs(subject(poked(subject, case.inputs, 0, 0, ["q"])).output - subject(case.inputs).output)
    rows = moved[0].max((0, -1)) if moved.ndim == 4 else moved[0].max(-1)
    if not rows[0] or rows[1:].any() or case.support is None or not case.support.all():
        return skip(case, "constant values", _("tokens stand on another axis"))
    inputs = dict(case.inputs)
    inputs["v"] = np.broadcast_to(inputs["v"][..., :1, :], inputs["v"].shape).copy()
    output = subject(inputs).output
    wanted = inputs["v"][..., :1, :]
    if output.shape[:-2] == wanted.shape[:-2] and output.shape[-1] == wanted.shape[-1]:
        ratio = output / wanted
        same = float(np.std(ratio)) < 1e-9
        if np.abs(ratio - 1).max() > 1e-6 and (same or _softmax_axis(case) == "queries"):
            case.add(
                "S6" if same else "X1",
                sentence=_(
                    "values that are all alike come out multiplied by {low} to {high}: the weights of a row don't sum to 1"
                ),
                low=float(ratio.min()),
                high=float(ratio.max()),
                certain=False,
            )
    return None


@probe("rotary")
def rotary_counts(case: Case) -> None:
    """Rotary positions that turn q and k alike at every place change nothing at all."""
    match = case.match
    if match is None or match.variant.ids or match.base.rotary or match.base.activation:
        return skip(case, "rotary", _("no rotary positions"))
    if case.subject.framework == "torch" and case.subject.layout != "nc" and _turned(case):
        case.add("R5", "")
    return None


def _turned(case: Case) -> bool:
    """Whether q goes into its product with k as other numbers of the same length than it was projected to."""
    assert case.match is not None
    result = case.subject(case.inputs, watch=True)
    seen, q = result.seen, case.match.guess.q
    if seen.kernels:
        taken = to_numpy(seen.kernels[0]["query"])
    elif seen.scored and seen.softmaxes:
        taken = to_numpy(seen.scored[0].left)
    else:
        return False
    if taken.size != q.size or not np.isfinite(taken).all():
        return False
    ratio = float(np.linalg.norm(taken) / np.linalg.norm(q))
    d = case.match.at.head
    scale = next((s for s in (1.0, d**-0.5, d**-0.25) if abs(ratio / s - 1) < 1e-6), None)
    return scale is not None and not np.allclose(np.sort(taken.ravel()), np.sort(q.ravel()) * scale, atol=1e-5)


def _says_next(words: str) -> bool:
    """Whether a docstring says that what comes next is foretold.

    >>> _says_next("Predicts the next note from the notes so far."), _says_next("BERT, a masked language model")
    (True, False)
    >>> _says_next("Basic self-attention without causal masking."), _says_next("不带因果掩码的自注意力")
    (False, False)
    """
    said = r"autoregress|\bcausal|next[- ](token|word|note|item|char|step|element|symbol|frame)|\bgpt\b|masked self[- ]?att|left[- ]to[- ]right|(not|never) (see|look at|attend to) (the )?(future|later)|因果|自回归|下一个"
    denied = r"(not|non|optional\w*|if|when|no|without|lacks?|omits?)[- ]*(a |an |any |the )?(autoregress|causal|masked self)|(无|没有|不带|非|不使用|不加)因果|bidirectional|bert\b|双向|causal\s*[:=]"
    return bool(re.search(said, words, re.IGNORECASE)) and not re.search(denied, words, re.IGNORECASE)


def causal_name(case: Case, name: str) -> bool:
    """Whether the name, or the file around it, says that tokens must not see what comes after."""
    if case.subject.declared.get("causal"):
        return True
    if any(r == "flag" and re.search(r"caus|mask|future", p) for p, r in case.subject.roles.items()):
        return False  # the caller chooses
    plain = re.sub(r"(non|not|no|un)_?(causal|masked)", "", name.lower())
    if re.search(r"causal|autoregress|gpt|sasrec|languagemodel|masked_?(self|multi)|decoder_?only", plain):
        return True
    if not case.subject.crosses and _says_next(case.says.docstring):
        return True
    text = case.says.text
    return (
        bool(re.search(r"def generate\(", text))
        and not case.subject.crosses
        and not re.search(r"encoder|cross|vit|bert", name.lower())
    )
