"""The checks of a Config: kinds and limits of values, patterns of layers, and settings that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import groupby
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from ..attention.shapes import head_width
from ..i18n import Problem, _, all_of, unknown
from .words import Mixer

if TYPE_CHECKING:
    from .config import Config

MIXERS: tuple[Mixer, ...] = get_args(Mixer)  # of one layer
STATES = ("retention", "mamba2", "delta")  # mixers with a state of fixed size instead of keys and values
MOST_LAYERS = 10_000  # the deepest trained models have a thousand
OTHER_LIMITS = ("window", "token_types", "dropout", "rotary_fraction")  # checked in _limits


def check_kinds(settings: Any, names: Mapping[str, str]) -> None:
    """Refuse values of a dataclass that don't match the types of its fields. `names` has other names for messages."""
    for field in fields(settings):
        value, name = getattr(settings, field.name), names.get(field.name, field.name)
        kinds = get_args(field.type) or (field.type,)
        if name in OTHER_LIMITS or (value is None and NoneType in kinds):
            continue
        if int in kinds and not _is_whole(value, 1):
            raise Problem("{name} is {value}: give a whole number, 1 or more", name=name, value=repr(value))
        if float in kinds and not (_is_number(value) and value > 0):
            raise Problem("{name} is {value}: give a number above 0", name=name, value=repr(value))
        if kinds == (bool,) and not isinstance(value, bool):
            raise Problem("{name} is {value}: give true or false", name=name, value=repr(value))


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 53


def _is_number(value: object) -> bool:
    # Not isfinite, which fails for integers beyond floats.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300


Checks = Iterator[
    tuple[bool, str]
]  # whether settings are wrong, and the message, which names settings as Config.to_dict does


def check_config(config: Config) -> None:
    """Refuse values outside their limits, and settings that contradict each other. Each value is of the right kind."""
    for checks in (_limits, _mixers, _rotary, _sides, _labels, _head, _blocks, _heads):
        for is_wrong, message in checks(config):
            if is_wrong:
                raise Problem(message, **config.to_dict())


def _limits(config: Config) -> Checks:
    for name in ("n_layer", "n_decoder_layer"):  # building a layer takes time, whatever its width
        if (value := getattr(config, name)) is not None and value > MOST_LAYERS:
            raise Problem(
                "{name} is {value}: {most} layers are the most that are built", name=name, value=value, most=MOST_LAYERS
            )
    is_window = config.window is None or _is_whole(config.window, 0)
    yield not is_window, _("window is {window!r}: give a whole number, 0 or more, or none")
    is_types = _is_whole(config.embedding.token_types, 0)
    yield not is_types, _("token_types is {token_types!r}: give a whole number, 0 for none")
    is_share = _is_number(config.dropout) and 0 <= config.dropout < 1
    yield not is_share, _("dropout is {dropout!r}: give a share from 0 up to, not including, 1")
    is_share = _is_number(config.rotary.fraction) and 0 < config.rotary.fraction <= 1
    yield not is_share, _("rotary_fraction is {rotary_fraction!r}: give a share above 0, 1 at most")
    scaling: object = config.rotary.scaling
    yield (
        scaling is not None and not (isinstance(scaling, dict) and "kind" in scaling),
        _('rotary_scaling is {rotary_scaling!r}: give none, or an object such as {{"kind": "linear", "factor": 2}}'),
    )


def _mixers(config: Config) -> Checks:
    words = config.mixers
    yield (
        "latent" in words and config.position not in ("rotary", "none", "learned", "sinusoidal"),
        _("mixer 'latent' carries its own rotary key: position {position!r} can't be added to it"),
    )
    has_state = any(word in STATES for word in words)
    yield (
        has_state and config.kind != "decoder",
        _(
            "mixer {mixer!r} reads from left to right and keeps no memory of another text: kind is {kind}; choose a "
            "decoder, or mixer 'attention'"
        ),
    )
    yield (
        config.window is None and (config.window_layers != "window" or config.rotary.window_base is not None),
        _("window_layers and window_base need layers with a window: set window, or leave them out"),
    )
    _each = config.windows  # refuses an invalid pattern
    for name in ("n_kv_head", "window", "qk_norm", "attention_scale", "attention_gate", "softcap", "depth_scale"):
        has_name = getattr(config, name) not in (None, False) or (name == "window" and config.window == 0)
        if has_name and "attention" not in words and not (name == "attention_scale" and "latent" in words):
            raise Problem(
                "mixer {mixer!r} has no {name}: leave it out, or choose mixer 'attention'", mixer=words[0], name=name
            )
    for name in ("n_state_head", "state_head_width", "n_state_group"):
        if not has_state and getattr(config, name) is not None:
            raise Problem(
                "mixer {mixer!r} keeps no state, so it has no {name}: leave it out, or choose one of {known}",
                mixer=config.mixer,
                name=name,
                known=all_of(STATES),
            )
    yield (
        config.state.n_group is not None and "retention" in words,
        _("the heads of retention share nothing: leave n_state_group={n_state_group} out"),
    )


def _rotary(config: Config) -> Checks:
    fraction = config.rotary.fraction
    if fraction == 1.0:
        return
    yield (
        config.position != "rotary" or "attention" not in config.mixers,
        _(
            "rotary_fraction={rotary_fraction} is the share of each head that rotary positions turn, and this model has "
            "none: leave it out, or set position='rotary' and an attention layer"
        ),
    )
    width = config.head_width or config.width // config.n_head
    part = int(width * fraction)
    if part < 2 or part % 2:
        raise Problem(
            "rotary turns pairs: {width} × {fraction} is {turned} numbers; it must be even, 2 or more",
            width=width,
            fraction=str(fraction),
            turned=part,
        )


def _sides(config: Config) -> Checks:
    for name, default in (("n_decoder_layer", None), ("sides", "shared"), ("source_vocab", None)):
        if (value := getattr(config, name)) != default and config.kind != "encoder-decoder":
            raise Problem(
                "{setting} tells the sides of an encoder-decoder apart: kind is {kind}, which has one; leave it out",
                setting=f"{name}={value!r}",
                kind=config.kind,
            )
    yield (
        config.embedding.token_types > 0 and config.kind != "encoder",
        _("token_types={token_types} belongs to an encoder: kind is {kind}, which has none; set 0"),
    )


def _labels(config: Config) -> Checks:
    labels, head = config.output.labels, config.output.head
    are_names = isinstance(labels, list | tuple) and all(isinstance(label, str) for label in labels)
    yield not are_names, _('labels is {labels!r}: give a list of names, such as ["bad", "good"]')
    if head != "classes":
        yield len(labels) > 0, _("labels belong to head 'classes': leave them out for head {head!r}")
        return
    yield not labels, _("head 'classes' needs labels: leave it out, or let  qkv train classify  set it")
    yield len({*labels}) < max(len(labels), 2), _("head 'classes' has the labels {labels}: give two or more, each once")
    no_pooler = not config.output.pooler and config.kind == "encoder"
    yield no_pooler, _("head 'classes' reads what the pooler makes of a text: set pooler=true")


def _head(config: Config) -> Checks:
    output = config.output
    settings = {"pooler=true": output.pooler, f"head={output.head!r}": output.head in ("none", "classes")}
    for setting, is_set in settings.items():
        if is_set and config.kind != "encoder":
            raise Problem(
                "{setting} belongs to an encoder, which gives states: kind is {kind}, which needs a head; leave it out",
                setting=setting,
                kind=config.kind,
            )
    for name, default in (("head_bias", False), ("output_scale", 1.0), ("output_softcap", None)):
        if getattr(config, name) != default and output.head != "linear":
            raise Problem(
                "{name} belongs to head 'linear': leave it out for head {head!r}", name=name, head=output.head
            )
    yield from ()


def _blocks(config: Config) -> Checks:
    output, no_feed_forward = config.output, config.feed_forward == "none"
    has_experts = "experts" in config.feed_forwards  # refuses an invalid pattern
    yield no_feed_forward and has_experts, _("experts are feed-forwards: choose a feed_forward, it is 'none'")
    yield (
        config.embedding.width is not None and (output.head != "linear" or config.kind == "encoder-decoder"),
        _("embedding_width belongs to head 'linear' of one stack: head is {head!r} and kind {kind}; leave it out"),
    )
    yield (
        no_feed_forward and config.hidden is not None,
        _("feed_forward 'none' has no hidden layer: leave hidden={hidden} out"),
    )
    yield (
        no_feed_forward and output.head == "mlm",
        _("head 'mlm' has the activation of the feed-forward: choose one, feed_forward is 'none'"),
    )
    if config.parallel:
        has_cross = config.kind == "encoder-decoder"
        yield has_cross, _("parallel blocks have no cross-attention, and kind is {kind}: leave it out")
        is_pre = config.norm_place == "pre"
        yield not is_pre, _("parallel blocks need norm_place 'pre', and it is {norm_place!r}: leave it out")
        yield (
            no_feed_forward,
            _("parallel blocks have a feed-forward beside the attention: choose one, feed_forward is 'none'"),
        )


def _heads(config: Config) -> Checks:
    if config.head_width is None:
        head_width(config.width, config.n_head)  # refuses heads that don't divide the width
    no_groups = config.n_kv_head is not None and config.n_head % config.n_kv_head > 0
    yield no_groups, _("{n_head} heads don't divide over n_kv_head={n_kv_head}: give a divisor")
    yield (
        config.relative.buckets < 4,
        _("relative_buckets is {relative_buckets}: give 4 or more, a near and a far one for each direction"),
    )
    yield (
        config.position == "relative" and config.relative.distance <= config.relative.buckets // 2,
        _(
            "relative_distance is {relative_distance}, but half of the {relative_buckets} buckets are one distance each: "
            "give more than that"
        ),
    )


def choose(what: str, word: object, among: tuple[object, ...]) -> None:
    """Refuse a word that is not among the choices."""
    if not any(word is right or (isinstance(right, str) and word == right) for right in among):
        raise unknown(what, word, among)


def layer_words(pattern: object, among: tuple[str, ...], most: int, what: str = "mixer") -> tuple[str, ...]:
    """Return the words of a pattern such as "mamba2×3 attention" or "(delta*3 attention)*2", layer by layer.

    >>> layer_words("(delta×2 attention)×2", ("attention", "delta"), most=9)
    ('delta', 'delta', 'attention', 'delta', 'delta', 'attention')
    >>> layer_words("mamba", ("attention", "mamba2"), most=9)
    Traceback (most recent call last):
    qkv.i18n.Problem: mixer 'mamba' is not one of attention, mamba2; did you mean 'mamba2'?
    """
    if not isinstance(pattern, str) or not pattern.strip():
        raise unknown(what, pattern, among)
    stack: list[list[str]] = [[]]
    last: list[str] = []  # what a following number repeats
    for sign, word, count in re.findall(r"([()])|([^\s()×*]+)|[×*]\s*(\d*)", pattern):
        if word:
            choose(what, word, among)
            last = [word]
            stack[-1] += last
        elif sign == "(":
            stack.append([])
            last = []
        elif sign == ")" and len(stack) > 1:
            last = stack.pop()
            stack[-1] += last
        elif sign or not last or not 0 < len(count) < 7 or not 1 <= int(count) * len(last) <= most:
            stack.append([])  # like an unclosed bracket: refused below
            break
        else:
            stack[-1] += last * (int(count) - 1)
            last = []
    if len(stack) != 1 or not 1 <= len(stack[0]) <= most:
        raise Problem(
            "{what} {pattern!r} can't be read: give one word for all layers, or one per layer as in 'mamba2×3 attention' or "
            "'(delta×3 attention)×2'",
            what=what,
            pattern=pattern,
        )
    return tuple(stack[0])


def layer_pattern(words: tuple[str, ...]) -> str:
    """Return the shortest pattern of words.

    >>> layer_pattern(("delta", "delta", "attention") * 2), layer_pattern(("mamba2",) * 5)
    ('(delta×2 attention)×2', 'mamba2')
    """
    count = len(words)
    period = next(n for n in range(1, count + 1) if count % n == 0 and words[:n] * (count // n) == words)
    if period == 1:
        return words[0]
    runs = ((word, len(list(same))) for word, same in groupby(words[:period]))
    once = " ".join(word if times == 1 else f"{word}×{times}" for word, times in runs)
    return once if period == count else f"({once})×{count // period}"
