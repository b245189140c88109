"""Layers that keep a state instead of all keys: retention, linear attention, the delta rule.

A function of q, k and v is called with decays and shares that are known, and compared number for number with the mixers'
reference; of a module they are read off its output (state_modules.py). Names only decide what is tried first. What equals
no such layer, right or with a mistake of the catalogue, is left to the attention doctor, unless its own words say that it
is none.
"""

import contextlib
import copy
import functools
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...i18n import Message, _
from ..case import Asked, Case
from ..mistakes import CATALOGUE
from ..mistakes.states import ADDED, ChunkBorder, StateKept, StateMistake
from ..numbers.states import Array, StateMixing, close, featured, table, told
from ..places import Place
from ..report import Report
from ..source.file import Source
from ..source.says import Says
from ..source.trees import open_code
from ..subject.adapt import frameworks
from ..subject.errors import UserError
from ..subject.guess import Sizes, role
from ..subject.subject import PerItem, Subject
from ..subject.values import arrays, parameters_of, signature

MIXER = re.compile(
    r"retention|retnet|linear[ _]?(att\w*|transformer)|delta[ _]?(rule|net)|gated[ _]?delta|fast[ _]?weight|mamba|ssd\b|state[ _]?space|rwkv",
    re.IGNORECASE,
)
DECAY = re.compile(r"(log_?)?(gammas?|decays?|alphas?|lam(bda)?s?|forget\w*|rates?|g|gk|a|f|w)(_.*)?")
SHARE = re.compile(r"(betas?|b|lr|eta|write\w*|steps?|dt|shares?|strengths?)(_.*)?")
CHUNK = re.compile(r".*(chunk|block|segment|piece).*|size|cs|bs")
STATE = re.compile(r".*(state|past|memory|cache|prev|hidden|kv).*|[sh]_?0?")
SIZES = Sizes(batch=3, queries=6, heads=4, head=5)
GAIN = 0.6  # of inputs: keys that are much longer than 1 make the delta rule explode
TOLERANCE = 1e-6
MOST = 40  # patches that are tried
RUNS = 16  # ways to call it that are compared


def examine(
    target: Any, name: str, told_: Says, space: dict[str, Any], asked: Asked, source: Any
) -> Case | Report | None:
    """A function of q, k and v that mixes them through a state; None where it is none."""
    if not inspect.isroutine(target) or attends(told_):
        return None
    roles, rest = _sorted(target, asked)
    found = _judged(list(_runs(target, name, space, roles, rest)), told_, asked, space) if roles else None
    if found is None:
        return Report(name, "unknown", problem=Message(UNKNOWN, name=name)) if speaks(name, told_) else None
    case, run, right = found

    def cures(mended: Any) -> bool:
        subject = replace(run.subject, function=_unchanged(run.made(mended)))
        output = _called(subject, run.inputs, run.arguments)
        return output is not None and close(output, table(right) @ right.v, TOLERANCE)

    if isinstance(source, Source):
        place(case, source, name, cures)
    return case


UNKNOWN = _(
    "{name} speaks of a layer that keeps a state, and is judged as one: but its numbers are those of no retention, linear attention or delta rule that qkv knows, right or wrong. Functions of q, k, v with a decay, a share or a chunk size, and modules of one input are known."
)


def attends(told_: Says) -> bool:
    """Whether it is attention by what it calls: there is nothing of a state to look for."""
    return bool(re.search(r"softmax|scaled_dot_product|MultiheadAttention|flash_attn", told_.segment))


def speaks(name: str, told_: Says) -> bool:
    """Whether its name or its words say that it is such a layer."""
    return bool(MIXER.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)) or MIXER.search(told_.docstring))


# --- functions of q, k and v --------------------------------------------------------------------------------------


@dataclass
class Given:
    """A number for every token, (B, H, N), and how the code may want it."""

    numbers: Array
    encoded: Any


@dataclass
class StateRun:
    """One way to call it that runs, and what came."""

    subject: Subject
    inputs: dict[str, Array]
    q: Array  # (B, H, N, D)
    k: Array
    v: Array
    output: Array  # (B, H, N, P)
    decay: Any  # (B, H, N), or None
    share: Any
    arguments: dict[str, Any]
    meanings: dict[str, str]  # which of them is the decay, which the share
    made: partial[Any]  # a function of whole texts of what the file has
    chunk: int = 0


Judged = tuple[Case, StateRun, StateMixing]  # with the layer that it should be


def _judged(runs: list[StateRun], told_: Says, asked: Asked, space: dict[str, Any]) -> Judged | None:
    if any(run.chunk for run in runs):
        runs = [run for run in runs if run.chunk]  # one chunk for the whole text hides its border
    for run in runs:
        if (right := _right(run)) is not None:
            return _right_so_far(run, right, told_, asked, space)
    for run, mistake in itertools.product(runs, mistakes()):
        for m in _hypotheses(run, plain=True):
            m = m if run.chunk else replace(m, chunk=run.made.keywords.get("piece", 0))
            if (said := named_mistake(mistake, m, run.output)) is not None:
                case = _case(run, told_, asked, space)
                case.add(mistake.id, said.pop("how", ""), **said)
                return case, run, m
    return None


def mistakes() -> list[type[StateMistake]]:
    """Those of the catalogue that a layer with a state can have."""
    return [one for one in CATALOGUE.values() if issubclass(one, StateMistake)]


def named_mistake(wrong: type[StateMistake], m: StateMixing, given: Array) -> dict[str, Any] | None:
    """What to tell of the mistake if its numbers are these."""
    for made, said in wrong.tables(m):
        output = made @ m.v if wrong is not StateKept else made
        if close(output, given, TOLERANCE):
            error = float(np.abs(output - given).max() / np.abs(given).max())
            return {**said, "error": error}
    return None


def _sorted(target: Any, asked: Asked) -> tuple[dict[str, str] | None, list[inspect.Parameter]]:
    """Which arguments are q, k and v, and the others; None where it has no such three. Mamba calls them C, B and x."""
    parameters = parameters_of(target)
    named = {parameter: one for one, parameter in (asked.call or {}).items()}
    mamba = {p.name: one for p in parameters if (one := {"c": "q", "b": "k", "x": "v", "u": "v"}.get(p.name.lower()))}
    for known in (named or {p.name: role(p.name) for p in parameters}, mamba):
        roles: dict[str, str] = {}
        for parameter in parameters:
            one = known.get(parameter.name, "")
            if one in ("q", "k", "v") and one not in roles.values() and parameter.default is parameter.empty:
                roles[parameter.name] = one
        if sorted(roles.values()) == ["k", "q", "v"]:
            return roles, [p for p in parameters if p.name not in roles]
    return None, []


def _runs(
    target: Any, name: str, space: dict[str, Any], roles: dict[str, str], rest: list[inspect.Parameter]
) -> Iterator[StateRun]:
    """Every way to call it that runs: layouts, and which of its other arguments is what."""
    low = {p.name: p.name.lower() for p in rest}
    chunks = [p.name for p in rest if CHUNK.fullmatch(low[p.name])]
    wanted = [p for p in rest if p.name not in chunks and p.default is p.empty]
    states = [p.name for p in wanted if STATE.fullmatch(low[p.name])]  # what takes one token at a time
    numbers = [p.name for p in wanted if p.name not in states]
    numbers += [
        p.name
        for p in rest
        if (p.default is None and (DECAY.fullmatch(low[p.name]) or SHARE.fullmatch(low[p.name])))
        or (isinstance(p.default, float) and DECAY.fullmatch(low[p.name]))
    ]
    if len(numbers) > 2 or len(states) > 1:
        return
    framework, found = frameworks(target, space)[0], 0
    walks = [partial(_walked, roles=roles, state=states[0], piece=piece) for piece in (0, 1)] if states else [_whole]
    ways = itertools.product(range(len(walks)), ("bhnd", "bnhd", "bnc", "nc"), _meanings(numbers))
    for walk, layout, meanings in ways:
        made = partial(walks[walk], layout=layout)
        anew = _unchanged(made(target))
        subject = Subject(name, anew, None, SIZES, dict(roles), layout, framework, SIZES.head, gain=GAIN)
        inputs = subject.draw(3)
        q, k, v = (_heads(inputs[r], layout) for r in "qkv")
        for chunk in (2, 0) if chunks else (0,):
            cut = dict.fromkeys(chunks, chunk or SIZES.queries)
            shapes = [_encodings(one, layout, framework) for one in meanings.values()]
            for filling in itertools.product(*(way[::-1] if states else way for way in shapes)):  # one for all tokens
                given = {**cut, **{p: f.encoded for p, f in zip(meanings, filling, strict=True)}}
                if found < RUNS and (output := _called(subject, inputs, given)) is not None:
                    known = {one: f.numbers for one, f in zip(meanings.values(), filling, strict=True)}
                    decay, share = known.get("decay"), known.get("share")
                    yield StateRun(subject, inputs, q, k, v, output, decay, share, given, meanings, made, chunk)
                    found += 1


def _whole(function: Any, layout: str) -> Any:
    """A function that takes whole texts, as it is."""
    return function


def _walked(function: Any, layout: str, roles: dict[str, str], state: str, piece: int) -> Any:
    """A function that takes a few tokens and a state, over a whole text; piece 0: one token, without an axis for it."""
    axis = {"bhnd": 2, "bnhd": 1, "bnc": 1, "nc": 0}[layout]
    kept = signature(function).replace(parameters=[p for p in parameters_of(function) if p.name != state])
    value = next(p for p, one in roles.items() if one == "v")

    def walk(*given: Any, **named: Any) -> Any:
        whole = dict(kept.bind(*given, **named).arguments)
        n, held, rows = whole[value].shape[axis], None, []
        for t in range(0, n, piece or 1):
            token = {p: _token(x, t, n, axis, piece if p in roles or piece > 1 else 0) for p, x in whole.items()}
            shown = _token(whole[value], t, n, axis, max(piece, 1))
            if held is None:
                one = _token(whole[value], t, n, axis, 0)
                square = (*one.shape, one.shape[-1])
                held = one.new_zeros(square) if isinstance(one, Tensor) else np.zeros(square)
            came = list(arrays(function(**token, **{state: held})))
            rows.append(next(x for x in came if math.prod(x.shape) == math.prod(shown.shape)).reshape(shown.shape))
            held = next(x for x in reversed(came) if tuple(x.shape) == tuple(held.shape))
        return torch.cat(rows, axis) if isinstance(rows[0], Tensor) else np.concatenate(rows, axis)

    walk.__signature__ = kept  # type: ignore[attr-defined]
    walk.__wrapped__ = function  # type: ignore[attr-defined]
    return walk


def _token(given: Any, t: int, n: int, axis: int, piece: int) -> Any:
    """The part of these tokens in what has one for each; anything else as it is."""
    if getattr(given, "ndim", 0) <= axis or given.shape[axis] != n:
        return given
    return given[(slice(None),) * axis + (slice(t, t + piece) if piece else t,)]


def _meanings(numbers: list[str]) -> list[dict[str, str]]:
    """Which of its numbers is the decay and which the share: by names first."""
    if not numbers:
        return [{}]
    ways = [
        dict(zip(numbers, order, strict=True)) for order in itertools.permutations(("decay", "share"), len(numbers))
    ]
    ways.sort(
        key=lambda way: sum(not (DECAY if one == "decay" else SHARE).fullmatch(p.lower()) for p, one in way.items())
    )
    return ways


def _encodings(kind: str, layout: str, framework: str) -> list[Given]:
    """Numbers of a kind in the shapes that people give them: for each token, for each head, one for all."""
    random = np.random.default_rng(len(kind))
    b, h, n = SIZES.batch, SIZES.heads if layout in ("bhnd", "bnhd") else 1, SIZES.queries
    low, high = (0.55, 0.95) if kind == "decay" else (0.3, 0.9)
    drawn = random.uniform(low, high, (b, h, n))
    found: list[tuple[Array, Any]] = []
    for numbers in (drawn, -drawn) if kind == "decay" else (drawn,):
        tokens = {"bhnd": numbers, "bnhd": numbers.swapaxes(1, 2), "bnc": numbers[:, 0], "nc": numbers[:, 0]}[layout]
        found += [(numbers, tokens), (numbers, tokens[..., None])]
    if h > 1:
        heads = np.broadcast_to(np.linspace(low, high, h)[None, :, None], (b, h, n))
        found += [(heads, heads[0, :, 0]), (heads, heads[0, :, :1, None])]
        found += [(-heads, -heads[0, :, 0])] if kind == "decay" else []
    one = np.full((b, h, n), 0.8 if kind == "decay" else 0.6)
    found.append((one, float(one[0, 0, 0])))

    def typed(given: Any) -> Any:
        if isinstance(given, float):
            return given
        return np.ascontiguousarray(given) if framework == "numpy" else torch.tensor(np.ascontiguousarray(given))

    def each(given: Any) -> Any:
        per_text = layout == "nc" and isinstance(given, np.ndarray)
        return PerItem(typed(row) for row in given) if per_text else typed(given)

    return [Given(numbers, each(given)) for numbers, given in found]


def _heads(array: Array, layout: str) -> Array:
    """Canonical inputs have the heads before the tokens already; one text's have none."""
    return array if layout in ("bhnd", "bnhd") else array[:, None]


def _called(subject: Subject, inputs: dict[str, Array], given: dict[str, Any]) -> Array | None:
    try:
        output = subject(inputs, given).output
    except (UserError, ValueError, TypeError, RuntimeError, IndexError):
        return None
    if subject.layout in ("bhnd", "bnhd") and output.ndim == 3:  # heads merged again
        output = output.reshape(*output.shape[:2], SIZES.heads, -1).swapaxes(1, 2)
    output = _heads(output, subject.layout)
    return output if output.ndim == 4 and np.isfinite(output).all() and np.abs(output).max() > 0 else None


def _unchanged(function: Any) -> Any:
    """The function as if it had never been called: what it keeps in its defaults or in globals is put back."""
    begin = _kept(function)

    @functools.wraps(function)
    def anew(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        finally:
            _put_back(function, begin)

    return anew


def _kept(function: Any) -> tuple[Any, dict[str, Any]]:
    code = getattr(function, "__code__", None)
    space = getattr(function, "__globals__", {})
    mine = {
        n: space[n]
        for n in (code.co_names if code else ())
        if isinstance(space.get(n), dict | list | np.ndarray | Tensor)
    }
    return copy.deepcopy((getattr(function, "__defaults__", None), mine))


def _put_back(function: Any, begin: tuple[Any, dict[str, Any]]) -> None:
    defaults, mine = copy.deepcopy(begin)
    with contextlib.suppress(AttributeError, TypeError):
        function.__defaults__ = defaults
        function.__globals__.update(mine)


def _hypotheses(run: StateRun, plain: bool = False) -> Iterator[StateMixing]:
    """The layers that it may be: how its decay and its share are meant, with or without taking out."""
    ones = np.ones(run.q.shape[:3])
    g, b = run.decay, run.share
    gammas = [ones] if g is None else [*([g] if (g > 0).all() else []), np.exp(g)]
    gammas += [] if g is None or plain else [1 / (1 + np.exp(-g)), np.exp(-g), ones]
    if g is not None and b is not None and (g < 0).all():
        gammas.append(np.exp(g * b))  # Mamba's: a long step forgets more
    betas = [ones] if b is None else [b] if plain else [b, 1 / (1 + np.exp(-b)), ones]
    for rule, gamma, beta in itertools.product(("add", "delta"), gammas, betas):
        m = StateMixing(run.q, run.k, run.v, gamma, beta, rule, run.chunk)
        yield from itertools.islice(featured(m), 6 if plain else None)


def _right(run: StateRun) -> StateMixing | None:
    for m in _hypotheses(run):
        begins = 1.0 if m.shares else ((m.q * m.k).sum(-1) * m.beta)[:, :, 0, None]  # the first token reads only itself
        if m.causal and not close(begins * m.v[:, :, 0], run.output[:, :, 0], 1e-4):
            continue
        if close(table(m) @ m.v, run.output, TOLERANCE):
            return m
    return None


def _case(run: StateRun, told_: Says, asked: Asked, space: dict[str, Any]) -> Case:
    called = ", ".join([*run.subject.roles, *run.arguments])
    case = Case(run.subject, told_, asked, space, kind="state", called=called)
    case.checked.append("recurrence")
    return case


def _right_so_far(run: StateRun, m: StateMixing, told_: Says, asked: Asked, space: dict[str, Any]) -> Judged | None:
    """Its numbers are those of a right layer; whether of the one that is meant, and what else a state can do wrong."""
    words = f"{run.subject.name} {told_.docstring}"
    never, whole = (bool(np.abs(numbers - 1).max() < 1e-9) for numbers in (m.gamma, m.beta))
    begins = re.match(r"\s*(\"\"\")(.*?)\1", told_.text, re.DOTALL)  # what the file says of itself
    written = MIXER.search(words + (begins[2][:400] if begins else "")) or re.search(
        r"cumsum|\bouter\(", told_.segment
    )  # k vᵀ is no part of attention
    if never and whole and m.rule == "add" and not written:
        return None  # attention without its softmax, for all that its numbers say
    if not m.causal and (asked.causal or re.search(r"(?<!non.)(?<!not.)(causal|autoregress)", words, re.I)):
        return None  # the attention doctor says what that means
    case = _case(run, told_, asked, space)
    if not m.causal:
        case.remark("causal", _("every token sees those after it too: linear attention that isn't causal"))
    for parameter, kind in run.meanings.items():
        if kind == "decay" and never:
            case.add("L4", "unused", parameter=parameter)
            m = replace(m, gamma=np.exp(run.decay) if (run.decay < 0).any() else run.decay)
        elif kind == "share" and whole:
            case.add("L5", "unused", parameter=parameter)
            m = replace(m, beta=run.share, rule="delta")
    if m.rule == "add" and run.share is not None and re.search("delta", words, re.I) and not case.founds:
        meant = replace(m, rule="delta")
        case.add("L5", **told(table(m), table(meant), what=Message(ADDED), error=1e-15))
        m = meant
    if case.founds:
        return case, run, m
    _calls(case, run)
    _chunks(case, run, m)
    run = _pieces(case, run, m)
    for other in (p.name for p in parameters_of(run.subject.function)):
        if role(other) in ("mask", "lengths", "segment"):
            case.miss(f"mask {other}", MASKED, parameter=other)
        elif STATE.fullmatch(other.lower()) and other not in run.arguments:
            case.miss("state", _("going on from a state that is handed in ({parameter})"), parameter=other)
    return case, run, m


MASKED = _("{parameter}: of a layer with a state, masks aren't looked at")


def _calls(case: Case, run: StateRun) -> None:
    """The same call twice, with what the first left behind."""
    function = run.subject.function.__wrapped__  # type: ignore[attr-defined]
    begin, twin = _kept(function), replace(run.subject, function=function)
    one = {r: a[:1] for r, a in run.inputs.items()}  # text by text, each would find what the one before left
    given = {p: PerItem(g[:1]) if isinstance(g, PerItem) else g for p, g in run.arguments.items()}
    alone = run.subject.layout == "nc"
    try:
        calls = [twin(one if alone else run.inputs, given if alone else run.arguments).output for again in range(2)]
    except UserError as error:
        case.stopped("second call", error)
        return
    finally:
        _put_back(function, begin)
    change = float(np.abs(calls[1] - calls[0]).max() / np.abs(calls[0]).max())
    case.checked.append("state between calls")
    if change > TOLERANCE:
        case.add("L2", "calls", change=change)


def _chunks(case: Case, run: StateRun, m: StateMixing) -> None:
    """Fewer tokens than fill the last chunk."""
    if not run.chunk:
        if any(CHUNK.fullmatch(p.lower()) for p in run.arguments):
            case.miss("chunks", _("the borders of chunks: it runs with one chunk for the whole text only"))
        return
    n = SIZES.queries - 1
    inputs = {r: a[..., :n, :] for r, a in run.inputs.items()}
    cut = {p: _first(g, n, run.subject.layout) for p, g in run.arguments.items()}
    output = _called(run.subject, inputs, cut)
    case.checked.append("chunks")
    if output is None:
        return  # it takes whole chunks only, and says so
    short = replace(m, **{name: getattr(m, name)[:, :, :n] for name in ("q", "k", "v", "gamma", "beta")})
    right = table(short) @ short.v
    if not close(output, right, TOLERANCE):
        change = float(np.abs(output - right).max() / np.abs(right).max()) if output.shape == right.shape else 1.0
        case.add("L3", "rest", n=n, chunk=run.chunk, change=change, whole=SIZES.queries)


def _pieces(case: Case, run: StateRun, m: StateMixing) -> StateRun:
    """What takes one token and a state may take several: then they must see each other as they see what came before."""
    if run.made.keywords.get("piece") != 1:
        return run
    made = partial(run.made, piece=2)
    function = run.subject.function.__wrapped__.__wrapped__  # type: ignore[attr-defined]
    several = replace(run, made=made, subject=replace(run.subject, function=_unchanged(made(function))))
    output = _called(several.subject, run.inputs, run.arguments)
    if output is None:
        return run  # one token is all that it takes
    case.checked.append("chunks")
    if close(output, table(m) @ m.v, TOLERANCE):
        return run
    if (said := named_mistake(ChunkBorder, replace(m, chunk=2), output)) is not None:
        case.add("L3", **said)
    else:
        sentence = _("several tokens at once: it runs so, but its numbers are then those of no layer with a state")
        case.miss("pieces", sentence)
    return several


def _first(given: Any, n: int, layout: str) -> Any:
    """The numbers of the first tokens."""
    if isinstance(given, PerItem):
        return PerItem(_first(one, n, "text") for one in given)
    axis = {"bhnd": 2, "bnhd": 1, "bnc": 1, "text": 0, "nc": 0}[layout]
    if getattr(given, "ndim", 0) > axis and given.shape[axis] == SIZES.queries:
        return given[tuple(slice(n) if one == axis else slice(None) for one in range(given.ndim))]
    return given


def place(case: Case, source: Source, name: str, cures: Callable[[Any], bool]) -> None:
    """Where each mistake stands: the first of its likely patches that cures it."""
    code = open_code(source)
    assert code is not None
    for found in case.founds:
        tries: list[tuple[int, int, int, Any]] = []
        for depth, root in enumerate(code.uses(name)):
            with contextlib.suppress(Exception):  # anybody's tree
                for rank, node, diff in CATALOGUE[found.id].places(code, root):
                    tries += [(rank, depth, node.lineno, diff)] if diff else []
        for _rank, _depth, line, diff in sorted(tries, key=lambda one: one[:2])[:MOST]:
            with contextlib.suppress(Exception):  # a patch may be anything
                if cures(source.edited(diff.edits).load(name)):
                    found.place = Place(line, diff)
                    break
