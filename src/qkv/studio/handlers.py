"""The worker's handlers, thin over the library: HANDLERS maps each kind of request to a function that sends frames."""

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
from ..tracing.record.streaming import StreamStopped, apply_final_norm, logits_of_states, stream_trace
from ..tracing.record.tokenizer_protocol import reader_of
from ..tracing.study.survey import plain
from ..tracing.views.traces import Trace
from . import requests
from .frames import Fields
from .loaded_models import LoadedModels
from .text_views import IsActive, Send, TextView, Unmade, stored_words

SHORT = 256  # tokens of a text whose loss is sent with the view
LONGEST = 4096  # most tokens of a text for patterns and comparisons


def send_nothing(fields: Fields, /, *arrays: np.ndarray, hold: bool = False) -> None:
    """For callers that only need the view."""


@dataclass(frozen=True)
class Job:
    """What a handler needs besides its request."""

    models: LoadedModels
    send: Send
    is_active: IsActive  # False once the request is cancelled
    may_run: bool  # whether a model may run in this lane of the worker

    def view(self, spec: requests.ViewSpec, send: Send = send_nothing) -> TextView:
        """Return a view; compute it if it isn't cached."""
        return self.models.view(spec, send, self.is_active, self.may_run)


def open_model(job: Job, request: requests.OpenRequest) -> None:
    """Open a model and send its kind, heads and context."""
    source = request.spec.model
    if source.trace:
        trace = Trace.load(source.file)
        job.send({"kind": "opened", "model": source.name, "of": "trace", "text": trace.text, "of_model": trace.model})
        return
    model, tokenizer = job.models.model(source)
    from ..tracing.record.model_protocol import model_of

    adapter = model_of(model)
    fills_masks = tokenizer is not None and _setting(model, "head", "none") != "none"
    mask = reader_of(tokenizer).mask if fills_masks else None  # sentence encoders have a mask token but no head
    job.send(
        {
            "kind": "opened",
            "model": source.name,
            "of": adapter.kind,
            "heads": {part: [*layers.values()] for part, layers in adapter.heads().items()},
            "context": adapter.context,
            "mask": None if mask is None else TextView(request.spec, model, tokenizer).label(mask),
            "words": hasattr(model, "head") and hasattr(model, "config") and adapter.kind == "decoder",
        }
    )


def view(job: Job, request: requests.ViewRequest) -> None:
    """Send the header, every layer, the next words and the loss."""
    cached = job.models.views.get(request.spec)
    try:
        text_view = job.view(request.spec, job.send)
    except Exception:
        if not job.is_active():
            job.models.cancel(request.spec)
        raise
    if text_view is cached:
        text_view.resend(job.send)
    position = _query_position(text_view)
    if text_view.model is None:
        assert text_view.trace is not None
        if (words := stored_words(text_view.trace)) is not None:
            job.send({"kind": "words"} | words)
    elif position is not None:
        job.send(_words(text_view, position, Sampling(1.0), 10, None))
    text_view.layers(job.send)
    if text_view.model is not None and position is not None:
        if (states := text_view.states()) is not None and len(states) <= SHORT:
            job.send({"kind": "loss"} | _loss(text_view, job.is_active))
    job.send({"kind": "first", "first": text_view.first()})


def head(job: Job, request: requests.HeadRequest) -> None:
    """Send q, k and v of one head."""
    text_view = job.view(request.spec)
    head_map = text_view.head(request.part, request.layer, request.item, request.head, job.is_active)
    layer, arrays = text_view.head_arrays(head_map.call, text_view.numbers[request.part][request.layer])
    job.send({"kind": "head", "layer": layer}, *arrays)


def tile(job: Job, request: requests.TileRequest) -> None:
    """Send a pooled rectangle of a map."""
    text_view = job.view(request.spec)
    head_map = text_view.head(request.part, request.layer, request.item, request.head, job.is_active)
    rows, cols = (
        slice(span[0], min(span[1], size)) for span, size in ((request.rows, head_map.n), (request.cols, head_map.m))
    )
    tall, wide = max(request.tall, 1), max(request.wide, 1)
    cells = math.ceil((rows.stop - rows.start) / tall) * math.ceil((cols.stop - cols.start) / wide)
    if rows.start >= rows.stop or cols.start >= cols.stop or cells > 1 << 20:
        raise Problem("a tile has 1 to {most} cells, and this one {found}", most=1 << 20, found=cells)
    without = {"without": text_view.sinks(request.part, request.item)} if request.sink else {}
    job.send({"kind": "tile"}, head_map.tile(rows, cols, tall, wide, request.pool, **without).numpy())


def links(job: Job, request: requests.LinksRequest) -> None:
    """Rank all heads by the weight that one token gives to another."""
    text_view = job.view(request.spec)
    part = request.part
    if text_view.trace is None and part not in text_view.numbers:
        raise Unmade
    ranking = []
    for index in range(len(text_view.numbers.get(part, ()))):
        call = text_view.call(part, index, job.is_active)
        for head in range(call.n_head):
            head_map = text_view.head(part, index, request.item, head, job.is_active)
            ranking.append((index, head, float(head_map.weights([request.query])[0, request.key])))
    job.send({"kind": "links", "top": sorted(ranking, key=lambda each: -abs(each[2]))})


def words(job: Job, request: requests.WordsRequest) -> None:
    """Send the next words at a position: their probabilities, and those after temperature, top-k and top-p."""
    text_view = job.view(request.spec)
    _refuse_traces(text_view.spec)
    if text_view.trace is None:
        raise Unmade
    position = _query_position(text_view) if request.place is None else request.place
    if position is None:
        raise Problem("this model says no words here")
    sampling = Sampling(request.temperature, request.top_k or None, request.top_p or None)
    job.send(_words(text_view, position, sampling, request.most, request.seed))


def loss(job: Job, request: requests.LossRequest) -> None:
    """Send the loss of the text and of every token."""
    job.send({"kind": "loss"} | _loss(job.view(request.spec), job.is_active))


def lens(job: Job, request: requests.LensRequest) -> None:
    """Send the next words after every block (logit lens): final norm and head applied to the residual stream."""
    text_view = job.view(request.spec)
    _require_words(text_view)
    spec = text_view.spec
    with text_view.edited():
        trace = stream_trace(
            text_view.model, spec.text, text_view.tokenizer, target=spec.trace_target(), continuation=spec.more,
            residuals=request.place, stop=lambda: not job.is_active(),
        )  # fmt: skip
    shares = logits_of_states(text_view.model, apply_final_norm(text_view.model, trace.more["residuals"])).softmax(-1)
    p, ids = shares.topk(min(request.most or 1, shares.shape[-1]))
    layers = [
        [dict(id=i, label=text_view.label(i), p=share) for i, share in zip(*each, strict=True)]
        for each in zip(ids.tolist(), p.tolist(), strict=True)
    ]
    job.send({"kind": "lens", "place": request.place, "layers": layers})


def heads(job: Job, request: requests.HeadsRequest) -> None:
    """Send the pattern of every head."""
    text_view = _whole(job.view(request.spec), request.part)
    assert text_view.trace is not None
    if request.part == "mixers":
        raise Problem("a mixer's map has no shares: patterns are of attention")
    patterns = text_view.trace.patterns(part=request.part, batch=request.item)
    rows: list[list[Fields]] = [[] for _ in text_view.numbers[request.part]]
    index_of = {number: at for at, number in enumerate(text_view.numbers[request.part])}
    for row in patterns.table:
        scores = {kind: _number_or_none(score.value) for kind, score in row.scores.items()}
        entry = dict(pattern=row.name, mixture=list(row.mixture), distance=_number_or_none(row.distance), scores=scores)
        rows[index_of[row.layer]].append(entry)
    job.send({"kind": "heads", "kinds": list(patterns.kinds), "rows": rows})


def importance(job: Job, request: requests.ImportanceRequest) -> None:
    """Send how much the loss rises without each head."""
    from ..tracing.study.ablation import importance as measure

    text_view = job.view(request.spec)
    _refuse_traces(text_view.spec)
    last = 0.0

    def on_progress(done: int, total: int) -> None:
        nonlocal last
        if not job.is_active():
            raise StreamStopped
        if time.monotonic() - last > 0.2 or done == total:
            last = time.monotonic()
            job.send({"kind": "progress", "done": done, "all": total})

    with text_view.edited():
        effects = measure(text_view.model, text_view.spec.text, text_view.tokenizer, progress=on_progress)
    rows = {part: [[0.0] * n for n in counts] for part, counts in text_view.counts().items()}
    for effect in effects:
        rows[effect.part][text_view.numbers[effect.part].index(effect.layer)][effect.head] = effect.change
    job.send({"kind": "importance", "rows": rows})


def changes(job: Job, request: requests.ChangesRequest) -> None:
    """Rank heads by how much their attention differs between two views.

    Equal tokens are aligned. The distance of two rows is half the sum of absolute differences of their weights over the common
    keys, with the remaining weight as one more key: 0 … 1. The distance of a head is the mean over rows.
    """
    part = request.part
    first, second = (_whole(job.view(spec), part) for spec in (request.a, request.b))
    assert first.trace is not None and second.trace is not None
    sides = [
        _align(*(view.trace.tokens(part, keys=keys).pieces for view in (first, second)))  # type: ignore[union-attr]
        for keys in (False, True)
    ]
    ranking = []
    rows, keys = (
        torch.tensor([pair for pair in side if None not in pair], dtype=torch.long).reshape(-1, 2) for side in sides
    )
    for index in range(min(len(first.numbers[part]), len(second.numbers[part]))):
        tables = []
        for which, text_view in enumerate((first, second)):
            call = plain(text_view.call(part, index, job.is_active))
            shares = weights(call.only(items=[0]), rows[:, which].tolist())[0]  # (H, R, M)
            tables.append(
                torch.cat([shares[..., keys[:, which]], 1 - shares[..., keys[:, which]].sum(-1, keepdim=True)], -1)
            )
        count = min(len(table) for table in tables)
        apart = (tables[0][:count] - tables[1][:count]).abs().sum(-1).mean(-1) / 2 if len(rows) else torch.zeros(count)
        ranking += [(index, head, float(distance)) for head, distance in enumerate(apart)]
        if not job.is_active():
            raise StreamStopped
    fields = {"kind": "changes", "slots": sides[0], "keys": sides[1]}
    job.send(fields | {"top": sorted(ranking, key=lambda each: -each[2])})


def translations(job: Job, request: requests.TranslationsRequest) -> None:
    """Send candidate translations, the best first."""
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
        candidates = alternatives(model, tokenizer, spec.text, width=max(request.beams, 1))
    translations = [
        dict(text=tokenizer.decode(candidate.tokens), score=candidate.score, ids=candidate.tokens)
        for candidate in candidates
    ]
    job.send({"kind": "translations", "said": translations})


def page(job: Job, request: requests.PageRequest) -> None:
    """Send the one-file page of a view."""
    from ..draw.page import html

    text_view = job.view(request.spec)
    assert text_view.trace is not None
    first = None
    if request.opening:
        part = next(iter(text_view.numbers))
        first = part, text_view.numbers[part][request.opening[0]], request.opening[1]

    def on_progress(done: int, total: int) -> None:
        if not job.is_active():
            raise StreamStopped

    document = html(text_view.trace, lang=request.lang, first=first, progress=on_progress)
    job.send({"kind": "page"}, np.frombuffer(document.encode(), np.uint8))


def python(job: Job, request: requests.PythonRequest) -> None:
    """Send Python code that computes the view."""
    text_view = job.view(request.spec)
    spec, part = request.spec, request.part
    layer = text_view.numbers[part][request.layer]
    lines = ["import qkv"]
    if text_view.model is None:
        lines += ["from qkv.tracing import Trace", "", f"trace = Trace.load({spec.model.file!r})"]
    else:
        source = spec.model
        is_name = not source.step and not Path(source.name).exists() and "/" not in source.name
        name = source.name if is_name else source.file
        lines += ["", f"model, tokenizer = qkv.load({name!r})"]
        arguments = [repr(spec.text), "tokenizer"]
        if spec.target is not None:
            arguments.append(f"target={spec.trace_target()!r}")
        if spec.more:
            arguments[0] = f"tokenizer.encode({spec.text!r}) + {list(spec.more)!r}"
        indent = ""
        for heads, to in spec.edits:
            lines.append(f"{indent}with qkv.edit(model, {heads!r}, to={to!r}):")
            indent += "    "
        lines.append(f"{indent}trace = qkv.trace(model, {', '.join(arguments)})")
    lines += [
        f"print(trace.row({layer}, {request.head}, {request.query}, part={part!r}))",
        f"names = trace.tokens({part!r}).shown, trace.tokens({part!r}, keys=True).shown",
        f'qkv.heatmap(trace.map({layer}, {request.head}, part={part!r}), *names, path="head.png")',
    ]
    job.send({"kind": "python", "text": "\n".join(lines) + "\n"})


def _query_position(view: TextView) -> int | None:
    """Return the position whose next word is predicted: a decoder's last token, an encoder's [MASK], else None."""
    if view.trace is None or view.model is None or view.states() is None:
        return None
    part = next(iter(view.numbers))
    ids = view.trace.tokens(part).ids or ()
    reader = reader_of(view.tokenizer)
    if _setting(view.model, "head", "none") == "none" or not ids:
        return None
    if _setting(view.model, "kind") == "decoder":
        # The tokenizer may append an end token; nothing is predicted after that.
        ended = not view.spec.more and len(ids) > 1 and ids[-1] == reader.eos
        return len(ids) - (2 if ended else 1)
    if _setting(view.model, "kind") == "encoder" and reader.mask in ids:
        return list(ids).index(reader.mask)
    return None


def _refuse_traces(spec: requests.ViewSpec) -> None:
    if spec.model.trace:
        raise Problem("a trace has no model that could say words: open its model")


def _setting(model: object, name: str, otherwise: str = "") -> str:
    """Return a setting of a native model; other models have none."""
    return getattr(getattr(model, "config", None), name, otherwise)


def _require_words(view: TextView) -> None:
    _refuse_traces(view.spec)
    if view.states() is None or _setting(view.model, "head", "none") == "none":
        raise Problem("this model says no words here")


def _words(view: TextView, position: int, sampling: Sampling, most: int, seed: int | None) -> Fields:
    _require_words(view)
    states = view.states()
    assert states is not None
    if position >= len(states):
        raise Problem("there is no place {place}: the text has {n} tokens", place=position, n=len(states))
    return next_words(logits_of_states(view.model, states[position]), view, position, sampling, most, seed)


def next_words(
    logits: torch.Tensor, view: TextView, position: int, sampling: Sampling, most: int, seed: int | None
) -> Fields:
    """Return the likeliest words by logits (V,), with their probabilities before and after `sampling`."""
    probabilities, reshaped = logits.softmax(-1), sampling.shape(logits[None])[0].softmax(-1)
    p, ids = probabilities.topk(min(max(most, 1), len(probabilities)))
    listed = [
        dict(id=i, label=view.label(i), p=share, cut=float(reshaped[i]))
        for i, share in zip(ids.tolist(), p.tolist(), strict=True)
    ]
    drawn = None
    if seed is not None:
        i = int(sampling.choose(logits[None], draws([seed], 1)[:, 0])[0])
        drawn = dict(id=i, label=view.label(i), p=float(probabilities[i]), cut=float(reshaped[i]))
    nonzero = reshaped > 0 if sampling.temperature else torch.arange(len(reshaped)) == int(logits.argmax())
    return dict(
        kind="words",
        place=position,
        words=listed,
        all=len(probabilities),
        keptCount=int(nonzero.sum()),
        keptMass=float(probabilities[nonzero].sum()),
        entropy=-float((probabilities * probabilities.clamp(min=1e-38).log()).sum()),
        drawn=drawn,
        ends=[int(i) for i in getattr(view.tokenizer, "ends", ())],
    )


def _loss(view: TextView, is_active: IsActive) -> Fields:
    """Return the mean −log p of a decoder's tokens after the first, computed in blocks of 128 positions."""
    states = view.states()
    if states is None or _setting(view.model, "kind") != "decoder":
        return dict(loss=None, each=[])
    _require_words(view)
    assert view.trace is not None
    ids = torch.tensor(view.trace.tokens(next(iter(view.numbers))).ids)
    each: list[float] = []
    for start in range(0, len(ids) - 1, 128):
        if not is_active():
            raise StreamStopped
        rows = slice(start, min(start + 128, len(ids) - 1))
        targets = ids[rows.start + 1 : rows.stop + 1]
        each += losses(logits_of_states(view.model, states[rows]), targets).tolist()
    return dict(loss=sum(each) / len(each) if each else None, each=each)


def _whole(view: TextView, part: str) -> TextView:
    """Return the view; refuse it if it lacks the part or is too long to compute all its maps."""
    if part not in view.numbers:
        raise Problem("this model has no part {part}: it has {parts}", part=part, parts=", ".join(view.numbers))
    assert view.trace is not None
    n = max(len(view.trace.tokens(part)), len(view.trace.tokens(part, keys=True)))
    if n > LONGEST:
        raise Problem(
            "the text has {n} tokens: this looks through every map whole, and takes up to {most}", n=n, most=LONGEST
        )
    return view


def _number_or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _align(first: Sequence[str], second: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """Align two lists of tokens: equal tokens share a line, others get lines of their own.

    >>> _align(["a", "b", "c"], ["a", "x", "c"])
    [(0, 0), (1, None), (None, 1), (2, 2)]
    """
    lines: list[tuple[int | None, int | None]] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += zip(range(a, b), range(c, d), strict=True)
        else:
            lines += [(i, None) for i in range(a, b)] + [(None, j) for j in range(c, d)]
    return lines


BY_NAME = (view, head, tile, links, words, loss, lens, heads, importance, changes, translations, page, python)
HANDLERS: dict[str, Callable[..., None]] = dict(open=open_model) | {handler.__name__: handler for handler in BY_NAME}
