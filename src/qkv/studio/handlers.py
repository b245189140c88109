"""The worker's handlers, thin over the library: HANDLERS has a function for each kind of request, which sends frames."""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..attention.formula import weights
from ..evaluation.token_losses import losses
from ..generation.sampling import Sampling, draws
from ..i18n import Problem
from ..tracing.record.streaming import StreamStopped, follow, normed, says
from ..tracing.record.tokenizer_protocol import reader_of
from ..tracing.study.survey import plain
from ..tracing.views.traces import Trace
from . import requests
from .frames import Fields
from .loaded_models import LoadedModels
from .text_views import Send, TextView, Unmade, Wanted, stored_words

SOON = 256  # tokens of a text whose loss is told at once
LONG = 4096  # tokens of a text that patterns and comparisons look through


def send_nothing(fields: Fields, /, *arrays: np.ndarray, hold: bool = False) -> None:
    """For callers that only need the view."""


@dataclass(frozen=True)
class Job:
    """What a handler works with, beside its request."""

    models: LoadedModels
    send: Send
    wanted: Wanted  # False once the request is cancelled
    may_run: bool  # may a model be run here? (worker.py's lanes)

    def view(self, spec: requests.ViewSpec, send: Send = send_nothing) -> TextView:
        """Return a view, made if it isn't there."""
        return self.models.view(spec, send, self.wanted, self.may_run)


def open_model(job: Job, request: requests.OpenRequest) -> None:
    """What a model is, once it is here."""
    source = request.spec.model
    if source.trace:
        trace = Trace.load(source.file)
        job.send({"kind": "opened", "model": source.name, "of": "trace", "text": trace.text, "of_model": trace.model})
        return
    model, tokenizer = job.models.model(source)
    from ..tracing.record.model_protocol import model_of

    known = model_of(model)
    guesses = tokenizer is not None and _setting(model, "head", "none") != "none"
    mask = reader_of(tokenizer).mask if guesses else None  # an encoder of sentences has one too, and fills nothing in
    job.send(
        {
            "kind": "opened",
            "model": source.name,
            "of": known.kind,
            "heads": {part: [*layers.values()] for part, layers in known.heads().items()},
            "context": known.context,
            "mask": None if mask is None else TextView(request.spec, model, tokenizer).label(mask),
            "words": hasattr(model, "head") and hasattr(model, "config") and known.kind == "decoder",
        }
    )


def view(job: Job, request: requests.ViewRequest) -> None:
    """The header, every layer, the next words, the loss."""
    before = job.models.views.get(request.spec)
    try:
        found = job.view(request.spec, job.send)
    except Exception:
        if not job.wanted():
            job.models.cancel(request.spec)
        raise
    if found is before:
        found.again(job.send)
    place = _asking(found)
    if found.model is None:
        assert found.trace is not None
        if (kept := stored_words(found.trace)) is not None:
            job.send({"kind": "words"} | kept)
    elif place is not None:
        job.send(_words(found, place, Sampling(1.0), 10, None))
    found.layers(job.send)
    if found.model is not None and place is not None:
        if (states := found.states()) is not None and len(states) <= SOON:
            job.send({"kind": "loss"} | _loss(found, job.wanted))
    job.send({"kind": "first", "first": found.first()})


def head(job: Job, request: requests.HeadRequest) -> None:
    """q, k and v of one head."""
    found = job.view(request.spec)
    one = found.head(request.part, request.layer, request.item, request.head, job.wanted)
    told, arrays = found.head_arrays(one.call, found.numbers[request.part][request.layer])
    job.send({"kind": "head", "layer": told}, *arrays)


def tile(job: Job, request: requests.TileRequest) -> None:
    """A rectangle of a map, pooled."""
    found = job.view(request.spec)
    one = found.head(request.part, request.layer, request.item, request.head, job.wanted)
    rows, cols = (slice(span[0], min(span[1], size)) for span, size in ((request.rows, one.n), (request.cols, one.m)))
    tall, wide = max(request.tall, 1), max(request.wide, 1)
    cells = math.ceil((rows.stop - rows.start) / tall) * math.ceil((cols.stop - cols.start) / wide)
    if rows.start >= rows.stop or cols.start >= cols.stop or cells > 1 << 20:
        raise Problem("a tile has 1 to {most} cells, and this one {found}", most=1 << 20, found=cells)
    more = {"without": found.sinks(request.part, request.item)} if request.sink else {}
    job.send({"kind": "tile"}, one.tile(rows, cols, tall, wide, request.pool, **more).numpy())


def links(job: Job, request: requests.LinksRequest) -> None:
    """Every head by how much one token gives to another."""
    found = job.view(request.spec)
    part = request.part
    if found.trace is None and part not in found.numbers:
        raise Unmade
    top = []
    for at in range(len(found.numbers.get(part, ()))):
        call = found.call(part, at, job.wanted)
        for head in range(call.n_head):
            one = found.head(part, at, request.item, head, job.wanted)
            top.append((at, head, float(one.weights([request.query])[0, request.key])))
    job.send({"kind": "links", "top": sorted(top, key=lambda each: -abs(each[2]))})


def words(job: Job, request: requests.WordsRequest) -> None:
    """The next words at a place, as they are and as they are drawn from."""
    found = job.view(request.spec)
    _refuse_traces(found.spec)
    if found.trace is None:
        raise Unmade
    place = _asking(found) if request.place is None else request.place
    if place is None:
        raise Problem("this model says no words here")
    sampling = Sampling(request.temperature, request.top_k or None, request.top_p or None)
    job.send(_words(found, place, sampling, request.most, request.seed))


def loss(job: Job, request: requests.LossRequest) -> None:
    """The loss of the text, and of every token."""
    job.send({"kind": "loss"} | _loss(job.view(request.spec), job.wanted))


def lens(job: Job, request: requests.LensRequest) -> None:
    """What the model would say after every block: its last norm and head on the stream at one place."""
    found = job.view(request.spec)
    _says_words(found)
    spec = found.spec
    with found.edited():
        trace = follow(
            found.model, spec.text, found.tokenizer, target=spec.trace_target(), more=spec.more,
            residuals=request.place, stop=lambda: not job.wanted(),
        )  # fmt: skip
    shares = says(found.model, normed(found.model, trace.more["residuals"])).softmax(-1)
    p, ids = shares.topk(min(request.most or 1, shares.shape[-1]))
    layers = [
        [dict(id=i, label=found.label(i), p=share) for i, share in zip(*each, strict=True)]
        for each in zip(ids.tolist(), p.tolist(), strict=True)
    ]
    job.send({"kind": "lens", "place": request.place, "layers": layers})


def heads(job: Job, request: requests.HeadsRequest) -> None:
    """The pattern of every head."""
    found = _whole(job.view(request.spec), request.part)
    assert found.trace is not None
    if request.part == "mixers":
        raise Problem("a mixer's map has no shares: patterns are of attention")
    told = found.trace.patterns(part=request.part, batch=request.item)
    rows: list[list[Fields]] = [[] for _ in found.numbers[request.part]]
    places = {number: at for at, number in enumerate(found.numbers[request.part])}
    for row in told.table:
        scores = {kind: _known(score.value) for kind, score in row.scores.items()}
        one = dict(pattern=row.name, mixture=list(row.mixture), distance=_known(row.distance), scores=scores)
        rows[places[row.layer]].append(one)
    job.send({"kind": "heads", "kinds": list(told.kinds), "rows": rows})


def importance(job: Job, request: requests.ImportanceRequest) -> None:
    """By how much the loss rises without each head."""
    from ..tracing.study.ablation import importance as measured

    found = job.view(request.spec)
    _refuse_traces(found.spec)
    last = 0.0

    def further(done: int, total: int) -> None:
        nonlocal last
        if not job.wanted():
            raise StreamStopped
        if time.monotonic() - last > 0.2 or done == total:
            last = time.monotonic()
            job.send({"kind": "progress", "done": done, "all": total})

    with found.edited():
        told = measured(found.model, found.spec.text, found.tokenizer, progress=further)
    rows = {part: [[0.0] * n for n in counts] for part, counts in found.counts().items()}
    for one in told:
        rows[one.part][found.numbers[one.part].index(one.layer)][one.head] = one.change
    job.send({"kind": "importance", "rows": rows})


def changes(job: Job, request: requests.ChangesRequest) -> None:
    """Which heads look elsewhere in the second view than in the first, the most changed first.

    Tokens are laid beside each other where they are the same. How far apart two rows are: half the sum of the differences
    of their shares over the keys that both have, and of what is left over in each, 0 … 1; a head's is the mean over rows.
    """
    part = request.part
    one, two = (_whole(job.view(spec), part) for spec in (request.a, request.b))
    assert one.trace is not None and two.trace is not None
    sides = [
        _beside(*(view.trace.tokens(part, keys=keys).pieces for view in (one, two)))  # type: ignore[union-attr]
        for keys in (False, True)
    ]
    top = []
    rows, keys = (
        torch.tensor([pair for pair in side if None not in pair], dtype=torch.long).reshape(-1, 2) for side in sides
    )
    for at in range(min(len(one.numbers[part]), len(two.numbers[part]))):
        tables = []
        for which, found in enumerate((one, two)):
            call = plain(found.call(part, at, job.wanted))
            shares = weights(call.only(items=[0]), rows[:, which].tolist())[0]  # (H, R, M)
            tables.append(
                torch.cat([shares[..., keys[:, which]], 1 - shares[..., keys[:, which]].sum(-1, keepdim=True)], -1)
            )
        count = min(len(table) for table in tables)
        apart = (tables[0][:count] - tables[1][:count]).abs().sum(-1).mean(-1) / 2 if len(rows) else torch.zeros(count)
        top += [(at, head, float(distance)) for head, distance in enumerate(apart)]
        if not job.wanted():
            raise StreamStopped
    told = {"kind": "changes", "slots": sides[0], "keys": sides[1]}
    job.send(told | {"top": sorted(top, key=lambda each: -each[2])})


def translations(job: Job, request: requests.TranslationsRequest) -> None:
    """What a translator might say, the best first."""
    from ..generation.decoding import alternatives

    spec = request.spec
    _refuse_traces(spec)
    model, tokenizer = job.models.model(spec.model)
    if _setting(model, "kind") != "encoder-decoder" or tokenizer is None:
        raise Problem("{model} is no translator", model=spec.model.name)
    if not spec.text.strip():
        raise Problem("there is no text: type one")
    view = TextView(spec, model, tokenizer)
    with view.edited():
        found = alternatives(model, tokenizer, spec.text, width=max(request.beams, 1))
    said = [dict(text=tokenizer.decode(one.tokens), score=one.score, ids=one.tokens) for one in found]
    job.send({"kind": "translations", "said": said})


def page(job: Job, request: requests.PageRequest) -> None:
    """The one-file page of a view."""
    from ..draw.page import html

    found = job.view(request.spec)
    assert found.trace is not None
    first = None
    if request.opening:
        part = next(iter(found.numbers))
        first = part, found.numbers[part][request.opening[0]], request.opening[1]

    def further(done: int, total: int) -> None:
        if not job.wanted():
            raise StreamStopped

    made = html(found.trace, lang=request.lang, first=first, progress=further)
    job.send({"kind": "page"}, np.frombuffer(made.encode(), np.uint8))


def python(job: Job, request: requests.PythonRequest) -> None:
    """The lines that compute what is seen."""
    found = job.view(request.spec)
    spec, part = request.spec, request.part
    layer = found.numbers[part][request.layer]
    lines = ["import qkv"]
    if found.model is None:
        lines += ["from qkv.tracing import Trace", "", f"trace = Trace.load({spec.model.file!r})"]
    else:
        source = spec.model
        is_name = not source.step and not Path(source.name).exists() and "/" not in source.name
        name = source.name if is_name else source.file
        lines += ["", f"model, tokenizer = qkv.load({name!r})"]
        given = [repr(spec.text), "tokenizer"]
        if spec.target is not None:
            given.append(f"target={spec.trace_target()!r}")
        if spec.more:
            given[0] = f"tokenizer.encode({spec.text!r}) + {list(spec.more)!r}"
        indent = ""
        for heads, to in spec.edits:
            lines.append(f"{indent}with qkv.edit(model, {heads!r}, to={to!r}):")
            indent += "    "
        lines.append(f"{indent}trace = qkv.trace(model, {', '.join(given)})")
    lines += [
        f"print(trace.row({layer}, {request.head}, {request.query}, part={part!r}))",
        f"names = trace.tokens({part!r}).shown, trace.tokens({part!r}, keys=True).shown",
        f'qkv.heatmap(trace.map({layer}, {request.head}, part={part!r}), *names, path="head.png")',
    ]
    job.send({"kind": "python", "text": "\n".join(lines) + "\n"})


def _asking(view: TextView) -> int | None:
    """Where the next word is asked for: at the last token of a decoder's text, at an encoder's [MASK]."""
    if view.trace is None or view.model is None or view.states() is None:
        return None
    part = next(iter(view.numbers))
    ids = view.trace.tokens(part).ids or ()
    reader = reader_of(view.tokenizer)
    if _setting(view.model, "head", "none") == "none" or not ids:
        return None
    if _setting(view.model, "kind") == "decoder":
        # The tokenizer may end a text; what comes after its end is not the question.
        ended = not view.spec.more and len(ids) > 1 and ids[-1] == reader.eos
        return len(ids) - (2 if ended else 1)
    if _setting(view.model, "kind") == "encoder" and reader.mask in ids:
        return list(ids).index(reader.mask)
    return None


def _refuse_traces(spec: requests.ViewSpec) -> None:
    if spec.model.trace:
        raise Problem("a trace has no model that could say words: open its model")


def _setting(model: object, name: str, otherwise: str = "") -> str:
    """A setting of a model of ours; another's has none."""
    return getattr(getattr(model, "config", None), name, otherwise)


def _says_words(view: TextView) -> None:
    _refuse_traces(view.spec)
    if view.states() is None or _setting(view.model, "head", "none") == "none":
        raise Problem("this model says no words here")


def _words(view: TextView, place: int, sampling: Sampling, most: int, seed: int | None) -> Fields:
    _says_words(view)
    states = view.states()
    assert states is not None
    if place >= len(states):
        raise Problem("there is no place {place}: the text has {n} tokens", place=place, n=len(states))
    return next_words(says(view.model, states[place]), view, place, sampling, most, seed)


def next_words(
    logits: torch.Tensor, view: TextView, place: int, sampling: Sampling, most: int, seed: int | None
) -> Fields:
    """The likeliest words by logits (V,): their probabilities, and those that they are drawn with."""
    shares, cut = logits.softmax(-1), sampling.shape(logits[None])[0].softmax(-1)
    p, ids = shares.topk(min(max(most, 1), len(shares)))
    listed = [
        dict(id=i, label=view.label(i), p=share, cut=float(cut[i]))
        for i, share in zip(ids.tolist(), p.tolist(), strict=True)
    ]
    drawn = None
    if seed is not None:
        i = int(sampling.choose(logits[None], draws([seed], 1)[:, 0])[0])
        drawn = dict(id=i, label=view.label(i), p=float(shares[i]), cut=float(cut[i]))
    kept = cut > 0 if sampling.temperature else torch.arange(len(cut)) == int(logits.argmax())
    return dict(
        kind="words",
        place=place,
        words=listed,
        all=len(shares),
        keptCount=int(kept.sum()),
        keptMass=float(shares[kept].sum()),
        entropy=-float((shares * shares.clamp(min=1e-38).log()).sum()),
        drawn=drawn,
        ends=[int(i) for i in getattr(view.tokenizer, "ends", ())],
    )


def _loss(view: TextView, wanted: Wanted) -> Fields:
    """Mean −log p of every token after the first, a decoder's; a block of places at a time."""
    states = view.states()
    if states is None or _setting(view.model, "kind") != "decoder":
        return dict(loss=None, each=[])
    _says_words(view)
    assert view.trace is not None
    ids = torch.tensor(view.trace.tokens(next(iter(view.numbers))).ids)
    each: list[float] = []
    for start in range(0, len(ids) - 1, 128):
        if not wanted():
            raise StreamStopped
        rows = slice(start, min(start + 128, len(ids) - 1))
        wished = ids[rows.start + 1 : rows.stop + 1]
        each += losses(says(view.model, states[rows]), wished).tolist()
    return dict(loss=sum(each) / len(each) if each else None, each=each)


def _whole(view: TextView, part: str) -> TextView:
    """A view whose maps can all be looked through."""
    if part not in view.numbers:
        raise Problem("this model has no part {part}: it has {parts}", part=part, parts=", ".join(view.numbers))
    assert view.trace is not None
    n = max(len(view.trace.tokens(part)), len(view.trace.tokens(part, keys=True)))
    if n > LONG:
        raise Problem(
            "the text has {n} tokens: this looks through every map whole, and takes up to {most}", n=n, most=LONG
        )
    return view


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _beside(one: Sequence[str], two: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """Two lists of tokens beside each other: equal ones on one line, others on lines of their own.

    >>> _beside(["a", "b", "c"], ["a", "x", "c"])
    [(0, 0), (1, None), (None, 1), (2, 2)]
    """
    lines: list[tuple[int | None, int | None]] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += zip(range(a, b), range(c, d), strict=True)
        else:
            lines += [(i, None) for i in range(a, b)] + [(None, j) for j in range(c, d)]
    return lines


BY_NAME = (view, head, tile, links, words, loss, lens, heads, importance, changes, translations, page, python)
HANDLERS: dict[str, Callable[..., None]] = dict(open=open_model) | {handler.__name__: handler for handler in BY_NAME}
