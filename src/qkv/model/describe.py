"""Describe a model: its parts, parameters, memory, FLOPs per token and cache.

Nothing is estimated: parameters are counted in the model (on the meta device if only a config is given), and FLOPs are
two per weight that a token passes through, plus those of attention for a token that attends to the full context.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from ..attention.heads import MultiHeadAttention
from ..attention.latent import LatentAttention
from ..attention.positions import Learned, Relative
from ..i18n import _, say
from ..mixers.delta import GatedDelta
from ..terminal import text_grid
from .config import Config
from .config_checks import STATES
from .experts import MixtureOfExperts
from .layers import StateMixer
from .transformer import Transformer

PARTS = ("embedding", "positions", "attention", "mixers", "cross", "forward", "experts", "norms", "pooler", "head")
FLOAT32 = 4  # bytes


NAMES = {
    "decoder": _("decoder"),
    "encoder": _("encoder"),
    "encoder-decoder": _("encoder-decoder"),
    "parameters": _("parameters"),
    "share": _("share"),
    "memory": _("memory (float32)"),
    "flops": _("FLOPs per token"),
    "embedding": _("embedding"),
    "positions": _("positions"),
    "attention": _("attention"),
    "mixers": _("mixers"),
    "cross": _("cross-attention"),
    "forward": _("feed-forward"),
    "experts": _("experts"),
    "norms": _("norms"),
    "head": _("head"),
    "head.tied": _("head (tied)"),
    "total": _("total"),
    "pooler": _("pooler"),
}


@dataclass
class PartSize:
    """One row: the parameters of a part, and its FLOPs per token (a multiply and an add are 2)."""

    name: str
    parameters: int = 0
    flops: int = 0


def parts(subject: Transformer | Config) -> list[PartSize]:
    """Return the parts of a model, in the order of the forward pass.

    For an encoder-decoder, FLOPs are those of one source token and one target token. A pooler has none: it reads only
    one token of a text.

    >>> [(part.name, part.parameters) for part in parts(Config(vocab=10, width=8, n_layer=1, n_head=2, hidden=16))]
    [('embedding', 80), ('attention', 256), ('forward', 384), ('norms', 24), ('head', 0)]
    """
    model = _model(subject)
    sizes = {name: PartSize(name) for name in PARTS}
    mixers = [path for path, module in model.named_modules() if isinstance(module, StateMixer)]
    counted: set[int] = set()  # a tied matrix counts once, at its first place
    for path, module in model.named_modules():
        part = sizes[_part_of(path, module, any(path.startswith(mixer) for mixer in mixers))]
        for parameter in module.parameters(recurse=False):
            if id(parameter) not in counted:
                counted.add(id(parameter))
                part.parameters += parameter.numel()
        if isinstance(module, nn.Linear) and path != "pooler" and not _is_unused_expert(model.config, path):
            part.flops += 2 * module.weight.numel()
        elif isinstance(module, MultiHeadAttention):
            part.flops += 4 * _visible_keys(model.config, path) * module.n_head * module.head_width
        elif isinstance(module, LatentAttention):
            width = module.head_width + module.rope_width + module.value_width
            part.flops += 2 * _visible_keys(model.config, path) * module.n_head * width
        elif isinstance(module, StateMixer):
            part.flops += _state_flops(module)
    has_head = model.config.output.head != "none"
    return [part for part in sizes.values() if part.parameters or part.flops or (part.name == "head" and has_head)]


def _is_unused_expert(config: Config, path: str) -> bool:
    """True for the experts that a token doesn't use. All are of one size: the first ones count as used."""
    return config.experts is not None and any(
        before == "experts" and int(number) >= config.experts.per_token for before, number in pairwise(path.split("."))
    )


def active(subject: Transformer | Config) -> int:
    """Return the number of parameters that one token uses: of the experts of a layer, those it is routed to.

    >>> config = Config(vocab=10, width=8, n_layer=1, n_head=2, hidden=16)
    >>> active(config.replace(experts={"count": 8, "per_token": 2})) - active(config)  # another expert, and the router
    448
    """
    model = _model(subject)
    return sum(
        parameter.numel() for name, parameter in model.named_parameters() if not _is_unused_expert(model.config, name)
    )


def _state_flops(mixer: StateMixer) -> int:
    """A token writes and reads each number of the state once; the delta rule also reads what it replaces."""
    cache = mixer.new_cache(1, device="meta")
    state = cache.state.numel()
    passes = 3 if isinstance(mixer, GatedDelta) else 2
    return 2 * passes * state + 2 * (cache.tail.shape[1] + 1) * cache.tail.shape[2]  # and the convolution


def state_bytes(subject: Transformer | Config) -> int:
    """Return the bytes of the mixers' states in float32, for a text of any length."""
    mixers = (block.attention for block in _model(subject).decoder or ())
    return FLOAT32 * sum(mixer.new_cache(1, device="meta").numbers for mixer in mixers if isinstance(mixer, StateMixer))


def cache_bytes(subject: Transformer | Config) -> int:
    """Return the bytes of the KV cache per token in float32; 0 for an encoder."""
    return sum(int(_cached_bytes(block.attention)) for block in _model(subject).decoder or ())


def _cached_bytes(attention: object) -> int:
    """Return the bytes that the cache of a layer has per token."""
    if isinstance(attention, LatentAttention):
        return FLOAT32 * (attention.rank + attention.rope_width)
    return FLOAT32 * 2 * attention.n_kv_head * attention.head_width if isinstance(attention, MultiHeadAttention) else 0


def describe(subject: Transformer | Config, lang: str | None = None) -> str:
    """Return the parts of a model as a table, and the sizes of its caches.

    >>> print(describe(Config(vocab=1000, width=64, n_layer=2, n_head=4, context=128), "en"))
    decoder, 2 layers, width 64, 4 heads, vocabulary 1,000
    <BLANKLINE>
                  parameters    share  memory (float32)  FLOPs per token
    embedding         64,000   38.9 %          256.0 kB                0
    attention         32,768   19.9 %          131.1 kB          131.1 k
    feed-forward      67,584   41.0 %          270.3 kB          135.2 k
    norms                320    0.2 %            1.3 kB                0
    head (tied)            0    0.0 %               0 B          128.0 k
    total            164,672  100.0 %          658.7 kB          394.2 k
    <BLANKLINE>
    FLOPs: the matrix products of one token that sees a context of 128, a multiply and an add counted as 2.
    KV cache: 1,024 bytes per token, 131.1 kB at the full context.
    """
    model = _model(subject)
    config, rows = model.config, parts(model)
    total = PartSize("total", sum(row.parameters for row in rows), sum(row.flops for row in rows))
    table = [["", *(say(NAMES[name], lang) for name in ("parameters", "share", "memory", "flops"))]]
    for row in [*rows, total]:
        name = "head.tied" if row.name == "head" and config.embedding.tied else row.name
        table.append(
            [
                say(NAMES[name], lang),
                f"{row.parameters:,}",
                f"{100 * row.parameters / total.parameters:.1f} %",
                f"{_abbreviate(FLOAT32 * row.parameters)}B",
                _abbreviate(row.flops).strip(),
            ]
        )
    lines = [headline(config, lang), "", *text_grid.aligned(table), ""]
    note = _(
        "FLOPs: the matrix products of one token that sees a context of {context}, a multiply and an add counted as 2."
    )
    if config.kind == "encoder-decoder":
        note = _(
            "FLOPs: the matrix products of one source token read and one target token written, each seeing a context of {context}, a multiply and an add counted as 2."
        )
    lines.append(say(note, lang, context=f"{config.context:,}"))
    if token_bytes := cache_bytes(model):
        lines.append(_cache(model, token_bytes, lang))
    if config.experts is not None:
        lines.append(_experts(model, lang))
    if state := state_bytes(model):
        lines.append(
            say("State of the mixers: {size}, whatever the length of the text.", lang, size=f"{_abbreviate(state)}B")
        )
    return "\n".join(lines)


def _cache(model: Transformer, token_bytes: int, lang: str | None) -> str:
    """Describe the KV cache. Layers with a window cache only what it covers."""
    config, cached = model.config, [block.attention for block in model.decoder or () if _cached_bytes(block.attention)]
    limit = config.context if config.window is None else min(config.context, config.window + 1)
    windowed = [attention for attention in cached if getattr(attention, "window", None) is not None]
    total = sum(
        int(_cached_bytes(attention)) * (limit if attention in windowed else config.context) for attention in cached
    )
    sentence = _("KV cache: {each} bytes per token, {whole} at the full context.")
    if windowed:
        sentence = _("KV cache: {each} bytes per token, never more than {held} tokens: {whole}.")
    if 0 < len(windowed) < len(cached):
        sentence = _(
            "KV cache: {each} bytes per token, {whole} at the full context, where {near} of {all} layers keep {held} tokens at most."
        )
    numbers = dict(
        each=f"{token_bytes:,}", whole=f"{_abbreviate(total)}B", held=f"{limit:,}", near=len(windowed), all=len(cached)
    )
    return say(sentence, lang, **numbers)


def _experts(model: Transformer, lang: str | None) -> str:
    """Describe the routing and the share of parameters that a token uses."""
    experts, words = model.config.experts, model.config.feed_forwards
    assert experts is not None
    numbers = dict(
        each=experts.per_token,
        count=experts.count,
        layers=words.count("experts"),
        all=len(words),
        score=experts.score,
        active=f"{_abbreviate(active(model)).strip()}",
        total=f"{_abbreviate(model.count()).strip()}",
    )
    sentence = say(
        "Experts: each token takes {each} of {count}, chosen by {score}, in {layers} of {all} layers: it uses {active} "
        "of {total} parameters.",
        lang,
        **numbers,
    )
    if experts.groups > 1:
        groups = say(
            "They form {groups} groups, of which a token uses {kept}.",
            lang,
            groups=experts.groups,
            kept=experts.groups_per_token,
        )
        sentence = say("{sentence} {next}", lang, sentence=sentence, next=groups)
    if experts.shared is not None:
        shared = say("Another expert, {hidden} wide, is used by all tokens.", lang, hidden=f"{experts.shared:,}")
        sentence = say("{sentence} {next}", lang, sentence=sentence, next=shared)
    return sentence


def headline(config: Config, lang: str | None = None) -> str:
    """Return a model in one line.

    >>> headline(Config(vocab=1000, width=64, n_layer=2, n_head=4), "en")
    'decoder, 2 layers, width 64, 4 heads, vocabulary 1,000'
    """
    heads = f"{config.n_head}" if config.n_kv_head in (None, config.n_head) else f"{config.n_head}:{config.n_kv_head}"
    if set(config.mixers) <= set(STATES):  # without attention: the heads of the mixers
        heads = "/".join(dict.fromkeys(str(config.state_sizes(word).heads) for word in config.mixers))
    encoder, decoder = config.layers
    layers = f"{encoder} + {decoder}" if config.n_decoder_layer is not None else str(config.n_layer)
    shape = dict(layers=layers, width=config.width, heads=heads, vocab=f"{config.vocab:,}")
    kind = say(NAMES[config.kind], lang)
    return say("{kind}, {layers} layers, width {width}, {heads} heads, vocabulary {vocab}", lang, kind=kind, **shape)


def _model(subject: Transformer | Config) -> Transformer:
    if isinstance(subject, Transformer):
        return subject
    with torch.device("meta"):  # shapes without memory, for models of any size
        return Transformer(subject)


def _part_of(path: str, module: nn.Module, in_mixer: bool) -> str:
    names = path.split(".")
    if names[0] in ("head", "pooler"):
        return names[0]
    if names[-1] == "norm" or names[-1].endswith("_norm"):
        return "norms"
    if isinstance(module, Learned | Relative):
        return "positions"
    if "cross" in names:
        return "cross"
    if "attention" in names:
        return "mixers" if in_mixer else "attention"
    if "feed_forward" in names:
        in_experts = isinstance(module, MixtureOfExperts) or {"router", "experts", "shared"} & set(names)
        return "experts" if in_experts else "forward"
    return "embedding"


def _visible_keys(config: Config, path: str) -> int:
    """Return the number of keys that a token attends to at the full context."""
    names = path.split(".")
    window = config.windows[int(names[1])]
    if window is None or "cross" in names:
        return config.context
    return min(config.context, window * (2 if names[0] == "encoder" else 1) + 1)


def _abbreviate(value: int) -> str:
    """Return a number with a prefix, as in 1.3 k or 12.6 M; a small one ends in a blank before its unit."""
    for size, sign in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:.1f} {sign}"
    return f"{value} "
