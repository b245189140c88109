"""The checks of a Config: kinds and limits of values, patterns of layers, and settings that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from itertools import groupby
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from ..attention.shapes import head_width
from ..i18n import Problem, all_of, unknown
from .words import Mixer

if TYPE_CHECKING:
    from .config import Config

MIXERS: tuple[Mixer, ...] = get_args(Mixer)  # of one layer
STATES = ("retention", "mamba2", "delta")  # mixers with a state of fixed size instead of keys and values
MOST_LAYERS = 10_000  # the deepest trained models have a thousand
OTHER_LIMITS = ("window", "token_types", "dropout", "rotary_fraction")  # checked in check_limits


def check_together(config: Config) -> None:
    """Refuse settings that contradict each other."""
    for check in (_mixers, _sides, _labels, _head, _blocks, _heads):
        check(config)


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


def check_limits(config: Config) -> None:
    """Refuse values outside the limits of their setting."""
    for name in ("n_layer", "n_decoder_layer"):  # building a layer takes time, whatever its width
        if (value := getattr(config, name)) is not None and not value <= MOST_LAYERS:
            raise Problem(
                "{name} is {value}: {most} layers are the most that are built",
                name=name,
                value=repr(value),
                most=MOST_LAYERS,
            )
    if config.window is not None and not _is_whole(config.window, 0):
        raise Problem("window is {value}: give a whole number, 0 or more, or none", value=repr(config.window))
    if not _is_whole(config.embedding.token_types, 0):
        raise Problem(
            "token_types is {value}: give a whole number, 0 for none", value=repr(config.embedding.token_types)
        )
    if not _is_number(config.dropout) or not 0 <= config.dropout < 1:
        raise Problem("dropout is {value}: give a share from 0 up to, not including, 1", value=repr(config.dropout))
    if not _is_number(config.rotary.fraction) or not 0 < config.rotary.fraction <= 1:
        raise Problem("rotary_fraction is {value}: give a share above 0, 1 at most", value=repr(config.rotary.fraction))
    scaling: object = config.rotary.scaling
    if scaling is not None and not (isinstance(scaling, dict) and "kind" in scaling):
        raise Problem(
            'rotary_scaling is {value}: give none, or an object such as {{"kind": "linear", "factor": 2}}',
            value=repr(scaling),
        )


def _mixers(config: Config) -> None:
    """Refuse settings that a mixer doesn't have."""
    words = config.mixers
    if "latent" in words and config.position not in ("rotary", "none", "learned", "sinusoidal"):
        raise Problem(
            "mixer 'latent' carries its own rotary key: position {position!r} can't be added to it",
            position=config.position,
        )
    if (state := next((word for word in words if word in STATES), None)) is not None and config.kind != "decoder":
        raise Problem(
            "mixer {mixer!r} reads from left to right and keeps no memory of another text: kind is {kind}; choose a "
            "decoder, or mixer 'attention'",
            mixer=state,
            kind=config.kind,
        )
    if config.window is None and (config.window_layers != "window" or config.rotary.window_base is not None):
        raise Problem("window_layers and window_base need layers with a window: set window, or leave them out")
    _each = config.windows  # refuses an invalid pattern
    for name in ("n_kv_head", "window", "qk_norm", "attention_scale", "attention_gate", "softcap", "depth_scale"):
        if name == "attention_scale" and "latent" in words:
            continue
        # A window of 0 is a window.
        if "attention" not in words and getattr(config, name) is not None and getattr(config, name) is not False:
            raise Problem(
                "mixer {mixer!r} has no {name}: leave it out, or choose mixer 'attention'",
                mixer=words[0],
                name=name,
            )
    for name in ("n_state_head", "state_head_width", "n_state_group"):
        if state is None and getattr(config, name) is not None:
            raise Problem(
                "mixer {mixer!r} keeps no state, so it has no {name}: leave it out, or choose one of {known}",
                mixer=config.mixer,
                name=name,
                known=all_of(STATES),
            )
    if config.state.n_group is not None and "retention" in words:
        raise Problem(
            "the heads of retention share nothing: leave n_state_group={groups} out", groups=config.state.n_group
        )
    is_rotary = config.position == "rotary" and "attention" in words
    if config.rotary.fraction != 1.0 and not is_rotary:
        raise Problem(
            "rotary_fraction={fraction} is the share of each head that rotary positions turn, and this model has none: "
            "leave it out, or set position='rotary' and an attention layer",
            fraction=config.rotary.fraction,
        )
    width = config.head_width or config.width // config.n_head
    part = int(width * config.rotary.fraction)
    if config.rotary.fraction != 1.0 and (part < 2 or part % 2):
        raise Problem(
            "rotary turns pairs: {width} × {fraction} is {turned} numbers; it must be even, 2 or more",
            width=width,
            fraction=str(config.rotary.fraction),
            turned=part,
        )


def _sides(config: Config) -> None:
    """Refuse settings of an encoder-decoder or an encoder for other kinds."""
    for name, value, usual in (
        ("n_decoder_layer", config.n_decoder_layer, None),
        ("sides", config.embedding.sides, "shared"),
        ("source_vocab", config.source_vocab, None),
    ):
        if value != usual and config.kind != "encoder-decoder":
            raise Problem(
                "{setting} tells the sides of an encoder-decoder apart: kind is {kind}, which has one; leave it out",
                setting=f"{name}={value!r}",
                kind=config.kind,
            )
    if config.embedding.token_types and config.kind != "encoder":
        raise Problem(
            "token_types={types} belongs to an encoder: kind is {kind}, which has none; set 0",
            types=config.embedding.token_types,
            kind=config.kind,
        )


def _labels(config: Config) -> None:
    """Check the labels, which head "classes" needs and other heads don't have."""
    labels, head = config.output.labels, config.output.head
    if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
        raise Problem('labels is {value}: give a list of names, such as ["bad", "good"]', value=repr(labels))
    if head != "classes":
        if labels:
            raise Problem("labels belong to head 'classes': leave them out for head {head!r}", head=head)
        return
    if not labels:
        raise Problem("head 'classes' needs labels: leave it out, or let  qkv train classify  set it")
    if len(set(labels)) < max(len(labels), 2):
        raise Problem("head 'classes' has the labels {labels}: give two or more, each once", labels=all_of(labels))
    if not config.output.pooler and config.kind == "encoder":
        raise Problem("head 'classes' reads what the pooler makes of a text: set pooler=true")


def _head(config: Config) -> None:
    """Refuse settings that a head doesn't have."""
    output = config.output
    stateful = (("head='none'", output.head == "none"), ("head='classes'", output.head == "classes"))
    for name, on in (*stateful, ("pooler=true", output.pooler)):
        if on and config.kind != "encoder":
            raise Problem(
                "{setting} belongs to an encoder, which gives states: kind is {kind}, which needs a head; leave it out",
                setting=name,
                kind=config.kind,
            )
    for name, on in (
        ("head_bias", output.bias),
        ("output_scale", output.scale != 1.0),
        ("output_softcap", output.softcap is not None),
    ):
        if on and output.head != "linear":
            raise Problem(
                "{name} belongs to head 'linear': leave it out for head {head!r}", name=name, head=output.head
            )


def _blocks(config: Config) -> None:
    """Check feed-forwards, experts and parallel blocks."""
    if any(word == "experts" for word in config.feed_forwards) and config.feed_forward == "none":
        raise Problem("experts are feed-forwards: choose a feed_forward, it is 'none'")
    if config.embedding.width is not None and (config.output.head != "linear" or config.kind == "encoder-decoder"):
        raise Problem(
            "embedding_width belongs to head 'linear' of one stack: head is {head!r} and kind {kind}; leave it out",
            head=config.output.head,
            kind=config.kind,
        )
    if config.feed_forward == "none":
        if config.hidden is not None:
            raise Problem("feed_forward 'none' has no hidden layer: leave hidden={hidden} out", hidden=config.hidden)
        if config.output.head == "mlm":
            raise Problem("head 'mlm' has the activation of the feed-forward: choose one, feed_forward is 'none'")
    if config.parallel and config.kind == "encoder-decoder":
        raise Problem("parallel blocks have no cross-attention, and kind is {kind}: leave it out", kind=config.kind)
    if config.parallel and config.norm_place != "pre":
        raise Problem(
            "parallel blocks need norm_place 'pre', and it is {place!r}: leave it out",
            place=config.norm_place,
        )
    if config.parallel and config.feed_forward == "none":
        raise Problem("parallel blocks have a feed-forward beside the attention: choose one, feed_forward is 'none'")


def _heads(config: Config) -> None:
    """Check that heads divide the width, and the buckets of distances."""
    if config.head_width is None:
        head_width(config.width, config.n_head)
    if config.n_kv_head is not None and config.n_head % config.n_kv_head:
        raise Problem(
            "{heads} heads don't divide over n_kv_head={groups}: give a divisor",
            heads=config.n_head,
            groups=config.n_kv_head,
        )
    if config.relative.buckets < 4:
        raise Problem(
            "relative_buckets is {buckets}: give 4 or more, a near and a far one for each direction",
            buckets=config.relative.buckets,
        )
    if config.position == "relative" and config.relative.distance <= config.relative.buckets // 2:
        raise Problem(
            "relative_distance is {distance}, but half of the {buckets} buckets are one distance each: give more "
            "than that",
            buckets=config.relative.buckets,
            distance=config.relative.distance,
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
