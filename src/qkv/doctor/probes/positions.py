"""Positions by themselves: sinusoidal tables, rotary turns and ALiBi slopes, as functions or modules."""

import functools
import inspect
import itertools
import re
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...i18n import Message, _
from ..case import Asked, Case
from ..source.says import Says
from ..subject.adapt import frequencies, made_table, own_tables
from ..subject.building import Built, builds
from ..subject.errors import Spent
from ..subject.guess import Sizes, meaning, role
from ..subject.subject import Subject
from ..subject.values import settings, signature, to_numpy

Array = np.ndarray
N, WIDTH, BATCH = 7, 24, 5


def examine(target: Any, name: str, space: dict[str, Any], says: Says) -> Case | None:
    """None where the target isn't about positions alone."""
    low = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    text = says.segment.lower()
    if re.search(r"atten|attn|block|layer|encoder_|decoder_|model|transformer|mha|head", low) and not re.search(
        r"pos|rope|rotary|alibi|sinus", low
    ):
        return None
    if re.search(r"atten|attn", low) or re.search(r"softmax|scaled_dot_product_attention", text):
        return None
    if re.search(r"alibi|slopes", low):
        return _alibi(target, name, space, says)
    if re.search(r"rope|rotary|rotate|rot_emb|apply_rot", low):
        return _rotary(target, name, space, says)
    if re.search(r"pos|sinus|timing|\bpe\b|_pe|pe_", low) and re.search(r"sin|cos", text):
        return table(target, name, space, says)
    if re.search(r"pos", low) and re.search(r"embedding|parameter", text):
        return table(target, name, space, says)
    return None


def alone(target: Any, name: str, space: dict[str, Any], says: Says) -> Case | None:
    """What moves no token with another may be about positions whatever its name: a turn, if it is one, or a table."""
    turn = _rotary(target, name, space, says)
    if turn is not None and not turn.founds:
        return turn
    case = table(target, name, space, says)
    if case is not None and not case.founds and "sin" not in says.segment:
        return None  # only its name could tell a learned table from other weights
    return case


def _case(target: Any, name: str, says: Says, space: dict[str, Any], called: str, built: str = "") -> Case:
    subject = Subject(name, target, None, Sizes(), {}, "table", "torch", WIDTH, built)
    return Case(subject, says, Asked(), space, kind="positions", called=called)


# --- sinusoidal tables --------------------------------------------------------------------------------------------


def table(target: Any, name: str, space: dict[str, Any], says: Says) -> Case | None:
    found = _run_table(target, space)
    if found is None:
        return None
    table, learned, called, built, item_wise = found  # (B, N, C)
    case = _case(target, name, says, space, called, built)
    case.checked.append("table")
    if item_wise:
        case.add("R3")
        return case
    if item_wise is None:
        case.miss(
            "axes",
            _("along which axis the tokens stand: it counts along the first, and its class does not name the axes"),
        )
    if learned:
        return case
    one = table[0]
    right = list(sinusoids(one.shape[0], one.shape[1]))
    error = min(float(np.abs(one - r).max()) for _, r in right)
    if error < 2e-4:
        return case
    if not re.search(r"sin", (says.segment or "sin")):
        return None
    if _has_settings(target) or (why := _why(one)) is None:
        case.miss("numbers", _("the numbers of the table: they are those of no known formula"))
        return case
    case.add("R1", change=error, why=why)
    return case


def sinusoids(n: int, width: int, base: float = 10000.0) -> Any:
    """The tables that are right: sin and cos in turn or side by side; the last frequency 1/base or one step before."""
    half = (width + 1) // 2
    place = np.arange(n)[:, None]
    for exponents in (np.arange(half) * 2 / width, np.arange(half) / max(half - 1, 1)):
        angles = place * base**-exponents
        sin, cos = np.sin(angles), np.cos(angles)
        turns = np.stack([sin, cos], -1).reshape(n, -1)[:, :width]
        yield "in turn", turns
        yield "in turn", np.stack([cos, sin], -1).reshape(n, -1)[:, :width]
        yield "side by side", np.concatenate([sin, cos], -1)[:, :width]
        yield "side by side", np.concatenate([cos, sin], -1)[:, :width]


def _has_settings(target: Any) -> bool:
    """True if an argument other than a size has a number of its own, such as another base: the formula is the caller's.

    >>> _has_settings(lambda n, width, max_len=50, base=10000: 0), _has_settings(lambda n, width, T=1000: 0)
    (False, True)
    """
    words = (
        r"t|tau|w|(\w*_)?(base|theta|temperature|period|clip|offset|shift|start|scale|alpha|beta|freq\w*|omega|lam\w*)"
    )
    defaults = {p.name: p.default for p in signature(target).parameters.values() if type(p.default) in (int, float)}
    return any(value not in (0, 1, 10000) and re.fullmatch(words, name.lower()) for name, value in defaults.items())


def _why(table: Array) -> Message | None:
    """Return the slip that gives this table; None if the table may be another one, as of relative or scaled positions."""
    n, width = table.shape
    half = (width + 1) // 2
    place, i = np.arange(n)[:, None], np.arange(half)
    for base in (1000.0, 100.0, 100000.0, 1e6):
        if any(np.allclose(table, t, atol=1e-4) for _, t in sinusoids(n, width, base)):
            return Message("its base is {base:g}", base=base)
    slips = {_("the exponent is doubled (4i/d)"): 4 * i / width, _("the exponent is halved (i/d)"): i / width}
    for words, exponents in slips.items():
        angles = place * 10000.0**-exponents
        for sin, cos in ((np.sin(angles), np.cos(angles)),):
            if np.allclose(table, np.stack([sin, cos], -1).reshape(n, -1)[:, :width], atol=1e-4) or np.allclose(
                table, np.concatenate([sin, cos], -1)[:, :width], atol=1e-4
            ):
                return Message(words)
    if not _is_waves(table):
        return None
    pairs = table[:, 0 : 2 * (width // 2) : 2] ** 2 + table[:, 1 : 2 * (width // 2) : 2] ** 2
    halves = table[:, : width // 2] ** 2 + table[:, width // 2 : 2 * (width // 2)] ** 2
    off = min(float(np.abs(pairs - 1).max()), float(np.abs(halves - 1).max()))
    if off <= 1e-3:
        return None
    return Message(
        "sin² + cos² of a pair is off 1 by up to {off:.2g}: sin and cos of a pair have different frequencies",
        off=off,
    )


def _is_waves(table: Array) -> bool:
    """True if each channel is the sine or the cosine of place · frequency, with frequencies of at most 1.

    >>> place = np.arange(5.0)[:, None]
    >>> _is_waves(np.sin(place * [1, 0.1])), _is_waves(np.sin((place - 2) * [1, 0.1])), _is_waves(0.1 * np.cos(place))
    (True, False, False)
    """
    rows, first = np.arange(len(table))[:, None], np.clip(table[1], -1, 1)
    waves = np.sin(rows * np.arcsin(first)), np.cos(rows * np.arccos(first))
    off = np.minimum(*(np.abs(table - wave).max(0) for wave in waves))
    return bool((off < 1e-3).all())


def _run_table(target: Any, space: dict[str, Any]) -> tuple[Array, bool, str, str, bool | None] | None:
    """(B, N, C) that is added to x or given for N positions; whether it is learned; how it was got; whether it counts along
    the batch, None where it counts along the first axis and nothing says what that is."""
    if inspect.isroutine(target):
        table = _table_of_function(target)
        return None if table is None else (table[None], False, target.__name__, "", False)
    for built in _some(target, space):
        owner = built.object
        if not callable(owner) and hasattr(owner, "forward"):
            owner = owner.forward
        learned = isinstance(owner, nn.Module) and any(p.requires_grad for p in owner.parameters())
        if isinstance(owner, nn.Module):
            owner.eval().double()
        for shape in ((BATCH, N, WIDTH), (N, WIDTH)):
            got = _try(owner, torch.zeros(shape, dtype=torch.float64))
            more = _try(owner, torch.ones(shape, dtype=torch.float64) * 0.5)
            if got is None or more is None or got.shape != shape:
                continue
            if not np.allclose(more - got, (more - got).flat[0], atol=1e-9):
                continue
            if got.ndim == 2:
                return got[None], learned, "x", built.text, False
            constant = np.ptp(got, 1).max() < 1e-12 < np.ptp(got, 0).max()
            if constant and (first := _sequence_first(owner)) is not False:
                return got.swapaxes(0, 1), learned, "x", built.text, None if first is None else False
            if np.ptp(got, 0).max() > 1e-12 and not constant and got.shape[0] != got.shape[1]:
                continue
            return got, learned, "x", built.text, constant
        for given in (
            torch.arange(N)[None].repeat(BATCH, 1),
            torch.arange(N),
            N,
            torch.zeros(BATCH, N, dtype=torch.long),
            torch.zeros(BATCH, N, WIDTH, dtype=torch.float64),
        ):
            got = _try(owner, given)
            if got is not None and got.shape[-2:] == (N, WIDTH):
                if isinstance(given, Tensor) and given.is_floating_point() and not _ignores_values(owner, given, got):
                    continue
                rest = _beside_words(owner, given) if learned else None
                got = got if rest is None else rest
                return got.reshape(-1, N, WIDTH), learned and rest is None, "positions", built.text, False
    return None


def _beside_words(owner: Any, given: Any) -> Array | None:
    """What is added to vectors of tokens, each times one number; None where they are all there is."""
    words = [one for one in owner.modules() if isinstance(one, nn.Embedding)] if isinstance(owner, nn.Module) else []
    if len(words) != 1 or not isinstance(given, Tensor):
        return None
    vectors: list[Array] = []
    handle = words[0].register_forward_hook(lambda _module, _given, made: vectors.append(to_numpy(made)))
    output, other = _try(owner, given), _try(owner, torch.zeros_like(given))
    handle.remove()
    if len(vectors) != 2 or output is None or other is None or not output.shape == other.shape == vectors[0].shape:
        return None
    between, change = vectors[0] - vectors[1], output - other
    factor = float((between * change).sum() / ((between**2).sum() or 1.0))
    rest = output - factor * vectors[0]
    return rest if np.abs(change - factor * between).max() < 1e-9 < np.abs(rest).max() else None


def _ignores_values(function: Any, vectors: Tensor, table: Array) -> bool:
    """True if other vectors give the same table, or the same table added to them."""
    other = _try(function, vectors + torch.arange(WIDTH) / WIDTH)
    if other is None or other.shape != table.shape:
        return False
    change = other - table
    return bool(np.allclose(change, 0, atol=1e-9) or np.allclose(change, np.arange(WIDTH) / WIDTH, atol=1e-9))


def _sequence_first(owner: Any) -> bool | None:
    """Whether the class says that its input is (sequence, batch, …); None where it says nothing."""
    try:
        text = inspect.getsource(type(owner))
    except (OSError, TypeError):
        return None
    batch, length = r"(batch\w*( size)?|b|bs|n)", r"(seq\w*([ _]len\w*)?|len\w*|time\w*|t|l|s)"
    if re.search(rf"\b{batch}\s*,\s*{length}\b", text, re.IGNORECASE) or "batch_first" in text:
        return False
    return True if re.search(rf"\b{length}\s*,\s*{batch}\b|{length}[- ]first", text, re.IGNORECASE) else None


def _some(target: Any, space: dict[str, Any]) -> Any:
    if not inspect.isclass(target):
        yield Built(target, "", {}, Sizes())
        return
    yield from itertools.islice(builds(target, Sizes(), None, space), 6)


def _try(function: Any, *given: Any) -> Array | None:
    try:
        with settings("float64"), torch.no_grad():
            made = function(*given)
    except (KeyboardInterrupt, Spent):
        raise
    except BaseException:
        return None
    made = made[0] if isinstance(made, (tuple, list)) and made else made
    return to_numpy(made) if isinstance(made, (Tensor, np.ndarray)) and made.ndim else None


def _table_of_function(function: Any) -> Array | None:
    """A function of the length and the width, in either order, found by the shape that comes back."""
    parameters = [p for p in signature(function).parameters.values() if p.default is p.empty]
    words = [meaning(p.name) for p in parameters]
    orders = [(N, WIDTH), (WIDTH, N)]
    if words[:1] == ["width"]:
        orders.reverse()
    if (got := made_table(function, WIDTH, N)) is not None:
        table = to_numpy(got) if isinstance(got, (Tensor, np.ndarray)) and got.ndim else None
        if table is not None and table.shape[-2:] == (N, WIDTH):
            return table.reshape(-1, N, WIDTH)[0]
    for order in orders:
        for given in (order, (torch.arange(N), WIDTH), (np.arange(N), WIDTH), (torch.zeros(BATCH, N, WIDTH),)):
            if len(given) != len(parameters):
                continue
            got = _try(function, *given)
            if got is not None and got.shape[-2:] == (N, WIDTH) and got.any():  # nothing of nothing is no table
                if len(given) == 1 and not _ignores_values(function, given[0], got):
                    continue
                return got.reshape(-1, N, WIDTH)[0]
    return None


# --- rotary -------------------------------------------------------------------------------------------------------


def _rotary(target: Any, name: str, space: dict[str, Any], says: Says) -> Case | None:
    """A turn must keep lengths, leave position 0 as it is, and let q·k depend on the distance alone."""
    if inspect.isroutine(target) and not re.search(r"cos|sin|polar|cis|freq|theta|angle", says.segment):
        return None  # a step of a turn, such as rotate_half
    for built in _some(target, space) if inspect.isclass(target) else [Built(target, "", {}, Sizes())]:
        owner = built.object
        if isinstance(owner, nn.Module):
            owner.eval().double()
        judged = []
        for call, layout in _turns(owner, space, says):
            if not _turns_vectors(call):
                continue
            case = _judge_turn(call, layout, _case(target, name, says, space, "x", built.text))
            if not case.founds:
                if inspect.isclass(target):
                    _judge_frequencies(call, case, built)
                return case  # right in one layout, with one table: that is how it is meant
            judged.append(case)
        if judged:
            return judged[0]
    return None


def _turns(owner: Any, space: dict[str, Any], says: Says) -> Any:
    """Ways to turn one vector d wide at every position: vector → (N, D), for each layout that runs."""
    heads, d = 4, 6
    text = says.segment
    layouts = {"bhnd": (BATCH, heads, N, d), "bnhd": (BATCH, N, heads, d), "bnd": (BATCH, N, d)}
    said = re.search(r"[\[(]\s*(?:b\w*)\s*,\s*(\w+)\s*,\s*(\w+)\s*,", text, re.IGNORECASE)
    if said and re.match(r"(s|t|l|n_?tok|seq|len|time)", said[1].lower()) and not re.match(r"n_?h", said[1].lower()):
        layouts = {"bnhd": layouts["bnhd"], "bhnd": layouts["bhnd"], "bnd": layouts["bnd"]}
    function = owner.forward if isinstance(owner, nn.Module) else owner
    parameters = [
        p
        for p in signature(function).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    sizes = Sizes(queries=N, head=d)
    vectors = [p for p in parameters if role(p.name) in ("x", "q", "k", "v", "") and meaning(p.name) not in ("config",)]
    tables = [p for p in parameters if role(p.name) in ("frequencies", "positions", "start")]
    if not vectors or len(vectors) + len(tables) != len(parameters):
        return
    choices: list[Any] = []
    for p in tables:
        if role(p.name) == "start":
            choices.append(itertools.repeat(0))
        elif role(p.name) == "positions":
            choices.append(itertools.repeat(torch.arange(N)))
        else:
            choices.append(own_tables(p.name, sizes, space) or frequencies(p.name, sizes, space))
    if choices and all(role(p.name) != "frequencies" for p in tables):
        choices = [[next(iter(c))] for c in choices]
    starts = [p for p in tables if role(p.name) == "start"]

    def run(vector: Array, layout: str, given: dict[str, Any]) -> Array | None:
        x = torch.tensor(np.broadcast_to(vector, layouts[layout]).copy())
        try:
            with settings("float64"), torch.no_grad():
                made = owner(**{p.name: x.clone() for p in vectors}, **given)
        except (KeyboardInterrupt, Spent):
            raise
        except BaseException:
            return None
        made = made[0] if isinstance(made, (tuple, list)) and made else made
        if not isinstance(made, Tensor) or made.is_complex() or tuple(made.shape) != layouts[layout]:
            return None
        out = made.double().numpy()
        return out[0, 1] if layout == "bhnd" else out[0, :, 1] if layout == "bnhd" else out[0]

    def one_by_one(vector: Array, layout: str, given: dict[str, Any]) -> Array | None:
        """Told where a text begins, or the one place of all it is handed: the first token at every place."""
        rows = [run(vector, layout, {**given, **{p.name: place for p in starts}}) for place in range(N)]
        return None if any(row is None for row in rows) else np.stack([row[0] for row in rows if row is not None])

    for layout in layouts:
        for values in zip(*choices, strict=False) if choices else [()]:  # cos and sin of one kind
            given = {p.name: value for p, value in zip(tables, values, strict=True)}
            for way in (run, one_by_one) if starts else (run,):
                call = functools.partial(way, layout=layout, given=given)
                if call(np.ones(d)) is not None:
                    yield call, layout


def _turns_vectors(call: Any) -> bool:
    """True if the call is linear, as every turn is, right or wrong."""
    q, k = np.random.default_rng(1).standard_normal((2, 6))
    return np.allclose(call(q - 2 * k), call(q) - 2 * call(k))


def _judge_turn(call: Any, layout: str, case: Case) -> Case:
    random = np.random.default_rng(0)
    q, k = random.standard_normal((2, 6))
    turned_q, turned_k = call(q), call(k)
    case.checked.append("turn")
    if np.allclose(turned_q, turned_q[:1]):
        case.add("R5", "same")
        return case
    dots = turned_q @ turned_k.T
    spread = max(float(np.ptp(np.diagonal(dots, offset))) for offset in range(-N + 2, N - 1))
    lengths = np.linalg.norm(turned_q, axis=-1) / np.linalg.norm(q)
    change = spread / float(np.abs(dots).max())
    if change > 1e-4 or np.abs(lengths - 1).max() > 1e-4:
        case.add("R4", change=change)
    cosines = np.array(
        [call(axis)[1] @ axis for axis in np.eye(len(q))]
    )  # of the angle by which place 1 turns each channel
    if not case.founds and np.ptp(cosines) < 1e-9 and cosines[0] < 1 - 1e-9:
        case.add("R1", "alike", angle=float(np.arccos(cosines[0])))
    return case


def _judge_frequencies(call: Any, case: Case, built: Built) -> None:
    """Note as not checked angles at place 1 that are not base^(−2i/d), of a base that the class got or its text names."""
    d = 6
    cosines = np.sort([call(axis)[1] @ axis for axis in np.eye(d)])[::2]
    numbers = [float(word) for word in re.findall(r"\b\d[\d_]*(?:\.\d*)?(?:e\d+)?\b", case.says.text)]
    arguments = [value for value in built.chosen.values() if isinstance(value, int | float)]
    bases = [base for base in {10000.0, *numbers, *arguments} if base > 1]
    if not any(np.allclose(cosines, np.cos(base ** (-np.arange(0, d, 2) / d)), atol=1e-4) for base in bases):
        case.miss("frequencies", _("its frequencies: at position 1 they are not base^(-2i/d)"))


# --- ALiBi --------------------------------------------------------------------------------------------------------


def _alibi(target: Any, name: str, space: dict[str, Any], says: Says) -> Case | None:
    """Slopes of head h: 2^(−8(h+1)/H); a bias −slope · distance has them between neighbours."""
    heads = 4
    function = target
    if inspect.isclass(target):
        return None
    parameters = [p for p in signature(function).parameters.values() if p.default is p.empty]
    values = {"heads": heads, "context": N, "kv_heads": heads}
    given = [values.get(meaning(p.name), N) for p in parameters]
    made = _try(function, *given)
    if made is None:
        with settings("float64"):
            try:
                made = np.array(function(*given), dtype=np.float64)
            except Exception:
                return None
    slopes = _slopes(made, heads)
    if slopes is None:
        return None
    right = 2.0 ** (-8 * (np.arange(heads) + 1) / heads)
    case = _case(target, name, says, space, ", ".join(p.name for p in parameters))
    case.checked.append("slopes")
    if not np.allclose(slopes, right, rtol=1e-4):
        case.add("R7", found=", ".join(f"{s:.4g}" for s in slopes), right=", ".join(f"{s:.4g}" for s in right))
    return case


def _slopes(made: Array, heads: int) -> Array | None:
    flat = np.squeeze(made)
    if flat.shape == (heads,):
        return np.abs(flat)
    if flat.ndim == 3 and flat.shape[0] == heads:
        return np.abs(flat[:, -1, -2] - flat[:, -1, -3])
    if flat.ndim == 2 and flat.shape[0] == heads:
        return np.abs(flat[:, -1] - flat[:, -2])
    return None
