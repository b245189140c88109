"""What a parameter's name most likely means: the widths, heads and flags of a constructor, the roles of a call.

A guess only decides what is tried first; what is true is found out by running it (`adapt.py`).

>>> meaning("num_attention_heads"), meaning("emb_size"), meaning("drop_rate"), role("encoder_outputs"), role("values")
('heads', 'width', 'dropout', 'memory', 'v')
"""

import contextlib
import re
import zlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

_tensor = torch.tensor


@dataclass(frozen=True)
class Sizes:
    """Sizes that are all different, so that an axis taken for another raises or shows."""

    batch: int = 5
    queries: int = 7
    keys: int = 9
    heads: int = 4
    kv_heads: int = 2
    head: int = 6
    context: int = 16
    vocabulary: int = 13
    layers: int = 2
    feedforward: int = 40

    @property
    def width(self) -> int:
        """Of the model: all heads side by side."""
        return self.heads * self.head


@dataclass(frozen=True)
class SizeDraw:
    """The sizes, and the seed of all weights and inputs, of one diagnosis."""

    sizes: Sizes = Sizes()
    seed: int = 0
    lengths: tuple[int, ...] = (5, 3, 2)  # of the texts for which masks are made; all sizes differ


FIRST = SizeDraw()
# A mistake is claimed if one of these shows it too. The second has other widths, which the mistake may need
# to show; the last is for code that runs with no other sizes.
AGAIN = (
    SizeDraw(
        Sizes(batch=6, queries=9, keys=11, heads=8, kv_heads=4, head=10, context=18, vocabulary=17, feedforward=50),
        1,
        (7, 5, 2),
    ),
    SizeDraw(Sizes(batch=7, queries=9, keys=11, heads=2, kv_heads=1, head=14), 1, (7, 5, 2)),
    SizeDraw(Sizes(), 1),
)
_draw: ContextVar[SizeDraw] = ContextVar("draw", default=FIRST)


def current_draw() -> SizeDraw:
    """The sizes and the seed that are in use."""
    return _draw.get()


@contextlib.contextmanager
def drawing(draw: SizeDraw) -> Iterator[None]:
    """Use other sizes and another seed within the block."""
    token = _draw.set(draw)
    try:
        yield
    finally:
        _draw.reset(token)


# Read from the top: the first that fits the lower-case name, underscores kept.
MEANINGS = [
    ("config", r"(model_?)?(config|cfg|args|params|hparams|hps?|opts?|conf|configuration|settings)(uration)?"),
    ("kv_heads", r".*kv_?(heads?|groups?).*|.*key_value_heads|n_?groups|num_(query_)?groups|n_?kv|num_kv|h_?kv|kv_h|g"),
    ("ratio", r".*(ratio|expansion|mult|multiplier|factor).*"),
    ("activation", r".*activation.*|(.*_)?act(_fn)?"),
    ("heads", r".*头数|(?!d_?heads?$|.*(dim|size|width|mask|per_)).*heads?(_?(num|count|n|q))?|h|nh|nhead|hn|n_h|num_h"),
    ("head", r".*(head|per_head).*(dim|size|width|d|features|channels)|d_?(head|k|v|q|qk|kq|h)|dim_(per_)?head|dim_?(k|q|v|key|query|value|qk)|(key|query|value|qk|kq|v)_?(dim|size|depth|channels|features)|head_?(dim|size)|dk|dv|dq|qkv_dim|query_pre_attn_scalar|hs|.*(size|dim|width|channels)_(per_)?head"),
    ("dropout", r".*drop.*|p|pdrop|attn_p|proj_p|d_rate|p_?drop(out)?"),
    ("context", r"block_?size|ctx(_len|_size)?|context.*|.*max_?_?(seq|len|pos|tok|ctx|context|time|n).*|.*seq(uence)?_?(len|size|length).*|n_?ctx|.*n_?positions|maxlen|length|seqlen|.*_len|max_t|t_max|window_length"),
    ("vocabulary", r".*vocab.*|.*n_?tok(ens)?|num_(tokens|embeddings|classes|labels)|.*(input|output)_vocab|n_class(es)?"),
    ("layers", r"n_?layers?|num_(layers|blocks|hidden_layers)|depth|.*_?layers|n_?blocks?|num_l|n_l"),
    ("feedforward", r"d_?ff|d_?hid(den)?|.*(ffn?|feed_?forward|mlp|inner|intermediate|hidden_mult)_?(dim|size|hidden|width|h)?.*|d_?inner|dim_?ff"),
    ("window", r".*window.*"),
    ("index", r".*(idx|index|layer_id|layer_num|block_id)"),
    ("temperature", r".*(temperature|temp|tau|scale_factor|scaling)"),
    ("scale", r".*scale"),
    ("eps", r".*eps(ilon)?"),
    ("decay", r"gammas?|decay(_rate)?s?|lam(bda)?s?|forget(_rate)?"),
    ("base", r".*(theta|base)"),
    ("flag", r"scale_\w+|.*bias|causal|masked?|is_.*|use_.*|with_.*|batch_first|flash|.*norm_first|autoregressive|decoder|return_.*|add_.*|rope|trainable|learn.*"),
    ("device", r"device"),
    ("dtype", r"dtype"),
    ("width", r".*(维度|维数|宽度)|.*(d_?model|model_?d(im)?|emb|embd|hidden|dim|width|d_?in|d_?out|features?|channels?|size|units|depth|latent|hid).*|[dcke]|in_?ch|nx|n_state|n_?feat.*|inp|out"),
]  # fmt: skip

ROLES = [
    ("start", r"(past|cached?)_?(key_values?_)?len(gth)?"),
    ("cache", r".*(cache|past|incremental|kv_?state).*"),
    ("other", r".*head_mask|.*(dropout|loss|token_type)_?(mask|ids)"),
    ("segment", r".*(segment|token_?type|type_?ids|seg_ids|segs).*"),
    ("lengths", r".*(lens?|lengths?)$"),
    ("mask", r".*掩码.*|.*(mask|msk).*|m|attn_bias|bias|(.*_)?(pad|padding|padded|keep|kept|visible|allowed|blocked|valid|present|adj|adjacency)"),
    ("flag", r"(return|need|output|use|is|with|average|verbose|train|do|add|store|save|causal|eval|test)(_.*|ing|s?_?weights|_?attn.*)?|causal|autoregressive|training|deterministic|inference|visuali[sz]e|debug|show"),
    ("dropout", r".*drop.*|p"),
    ("weight.q", r"(w|m|weights?|wt|proj|p)_?_?(q|quer(y|ies))(_.*)?|q(uery)?_?_?(w|weights?|proj|matrix)"),
    ("weight.k", r"(w|m|weights?|wt|proj|p)_?_?(k|keys?)(_.*)?|k(ey)?_?_?(w|weights?|proj|matrix)"),
    ("weight.v", r"(w|m|weights?|wt|proj|p)_?_?(v|values?)(_.*)?|v(alue)?_?_?(w|weights?|proj|matrix)"),
    ("weight.o", r"(w|m|weights?|wt|proj|p)_?_?(o|out|output|c|proj)(_.*)?|o(ut)?_?_?(w|weights?|proj|matrix)"),
    ("start", r".*(start|offset|input_pos|cache_position|step).*|pos|t"),
    ("frequencies", r".*(freq|rope|rotary|pos(ition)?_?emb|rel_?pos|alibi|cos_?sin|sin_?cos).*|(.*_)?(rot|cos|sin)(ines?|es?)?(_.*)?"),
    ("positions", r".*pos.*|places?"),
    ("scale", r".*(scale|scaling|temperature|tau|temp)"),
    ("memory", r".*(context|ctx|mem|enc|cross|cond|source|key_value|other).*|kv|kv_?(in|input|x|states?)|x?_?kv|xa|y|src_?out.*|z|(x|input)_?(2|b)"),
    ("q", r"查询\w*|(x|in|input|inputs)?_?_?q(uer(y|ies))?(_?(in|input|states?|x|s|seq|emb.*|tensor|vec.*|layer|len))?|qs|targets?|q_?\w?"),
    ("k", r"键\w*|(x|in|input|inputs)?_?_?k(eys?)?(_?(in|input|states?|x|s|seq|emb.*|tensor|vec.*|layer|len))?|ks|k_?\w?"),
    ("v", r"值\w*|(x|in|input|inputs)?_?_?v(al(ue)?s?)?(_?(in|input|states?|x|s|seq|emb.*|tensor|vec.*|layer|len))?|vs|v_?\w?"),
    ("x", r"输入\w*|x\d?|latents?|inp?|inputs?|.*(hidden|input|embed|feature|states?|seq|tokens?|idx|ids|src|tgt|trg|source|target|data|image|img|batch|out|emb).*|h|e|u|s|z|a|words?|text|sentence"),
]  # fmt: skip


def meaning(name: str) -> str:
    """What a constructor's parameter of that name most likely is, or ""."""
    return _first(MEANINGS, name)


def role(name: str) -> str:
    """What a call's parameter of that name most likely is, or ""."""
    return _first(ROLES, name)


def _first(table: list[tuple[str, str]], name: str) -> str:
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip("_")).lower()
    return next((word for word, pattern in table if re.fullmatch(pattern, plain)), "")


def value(word: str, sizes: Sizes, name: str = "") -> Any:
    """What to pass for that meaning; KeyError where there is no saying."""
    return {
        "width": sizes.width,
        "heads": sizes.heads,
        "kv_heads": sizes.kv_heads,
        "head": sizes.head,
        "dropout": 0.5,  # much, so that dropout that never sleeps shows
        "context": sizes.context,
        "vocabulary": sizes.vocabulary,
        "layers": sizes.layers,
        "feedforward": sizes.feedforward,
        "ratio": 2,
        "window": 3,
        "index": 0,
        "eps": 1e-5,
        "decay": 0.9,
        "temperature": sizes.head**0.5,
        "scale": sizes.head**-0.5,
        "base": 10000.0,
        "flag": True,
        "device": "cpu",
        "dtype": None,
        "activation": "relu",
    }[word]


class Layer:
    """The layer that a function is handed beside q, k and v: asleep, each head with keys of its own."""

    training = False
    num_key_value_groups = n_rep = 1


class Weights(dict):
    """A dictionary of weights that has whatever it is asked for: three side by side for "qkv", one row for a bias, else square.

    >>> w = Weights(4, "numpy")
    >>> w["Wq"].shape, w["qkv"].shape, w["bias_o"].shape
    ((4, 4), (4, 12), (4,))
    """

    def __init__(self, width: int, framework: str) -> None:
        super().__init__()
        self.width, self.framework = width, framework

    def __missing__(self, name: str) -> Any:
        low = str(name).lower()
        wide = 3 if re.search(r"qkv|c_attn|in_?proj", low) else 1
        shape = (
            (wide * self.width,)
            if re.match(r"b(_|[qkvo]|ias|$)|.*(_b|bias)$", low)
            else (self.width, wide * self.width)
        )
        drawn = np.random.default_rng(zlib.crc32(low.encode())).standard_normal(shape) * self.width**-0.5
        self[name] = drawn if self.framework == "numpy" else _tensor(drawn)
        return self[name]


class ConfigStub:
    """A configuration that answers by the meaning of what it is asked, whatever its fields are called."""

    _sizes: Sizes
    _real: Any
    _lenient: bool
    _asked: dict[str, Any]

    def __init__(self, sizes: Sizes, real: Any = None, lenient: bool = False) -> None:
        self.__dict__.update(_sizes=sizes, _real=real, _lenient=lenient, _asked={})

    def _answer(self, name: str) -> Any:
        if name in self._asked:
            return self._asked[name]
        word = meaning(name)
        real = self._real
        known = real.get(name) if isinstance(real, dict) else getattr(real, name, None)
        if (
            word not in ("", "config")
            and (word != "flag" or known is None)
            and not (known is None and word == "activation")
        ):
            found = value(word, self._sizes, name)
            if isinstance(known, bool) or (word == "flag" and not self._lenient and name.endswith("bias")):
                found = known if known is not None else False
            elif word in ("base", "eps", "device", "activation") and known is not None:
                found = known
        elif known is not None:
            found = known
        elif self._lenient:
            found = None
        else:
            raise AttributeError(name)
        self._asked[name] = found
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._answer(name)

    def __getitem__(self, name: str) -> Any:
        try:
            return self._answer(name)
        except AttributeError:
            raise KeyError(name) from None

    def __setattr__(self, name: str, given: Any) -> None:
        self._asked[name] = given

    def __contains__(self, name: str) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> Any:
        """As a dict has it."""
        try:
            return self._answer(name)
        except AttributeError:
            return default


def asked_of(answers: ConfigStub) -> dict[str, Any]:
    """What a configuration was asked for, and what it answered; it has no method for that, as a name may be a field's."""
    return dict(vars(answers)["_asked"])
