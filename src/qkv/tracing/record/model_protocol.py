"""What looking into a model asks of it, whoever made it: one protocol, answered by native_model.py and hf_model.py.

    model_of(model).heads()          how many heads each layer of each part has
    model_of(model).trace(…)         what every attention receives

B batch, N tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import Tensor

from ...i18n import Problem
from ..views.token_labels import Tokens
from ..views.traces import Trace
from .tokenizer_protocol import AnyTokenizer, Inputs, Rows, reader_of, to_list

if TYPE_CHECKING:
    from .streaming import Sides, TraceListener

MAX_TARGET = 128  # tokens that an encoder-decoder may say where nobody gave a target

Layer = tuple[str, int]  # part, number
TextInput = str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]] | Tensor


@dataclass(frozen=True)
class TraceRequest:
    """The arguments of `qkv.trace`, and of `follow` in streaming.py, which adds a follower."""

    source: TextInput | Inputs
    tokenizer: AnyTokenizer = None
    target: TextInput | None = None
    logits: bool = False
    name: str = ""
    eager: bool = False
    listener: TraceListener | None = None

    @property
    def text(self) -> str:
        """Return the text, "" if there is not exactly one."""
        return self.source if isinstance(self.source, str) else ""


class PreparedText(NamedTuple):
    """A text as a model is to read it, and how to ask what it says to it."""

    run: Callable[[Tensor], Tensor]  # ids (B, N) → logits (B, N, V)
    ids: Tensor  # (B, N): an encoder-decoder's are its decoder's
    real: Tensor  # (B, N): True where it is no padding


class Model(Protocol):
    """A model as far as looking needs it."""

    @property
    def kind(self) -> str:
        """encoder, decoder or encoder-decoder."""

    @property
    def context(self) -> int | None:
        """How many tokens it was made for, where it says so."""

    has_static_layers: bool  # can its layers and heads be known before it has run?

    def heads(self) -> dict[str, dict[int, int]]:
        """How many heads each layer of each part has; only those that attend."""

    def trace(self, request: TraceRequest) -> Trace:
        """Return what every attention receives."""

    def prepare(self, source: TextInput, tokenizer: AnyTokenizer, target: TextInput | None = None) -> PreparedText:
        """A text, ids, or a batch of either, to be run as often as one likes."""

    def translate(self, text: str, tokenizer: AnyTokenizer, *, cache: bool = True) -> str:
        """What an encoder-decoder says to a text, greedily."""

    def editing(self, layers: Iterable[Layer]) -> AbstractContextManager[Mapping[Layer, str]]:
        """Inside the block these layers' attention can be edited: the names by which `replace_weights` knows them."""


def model_of(model: object) -> Model:
    """The one place where ours and theirs are told apart; what is neither is refused."""
    from ...model.transformer import Transformer

    if isinstance(model, Transformer):
        from .native_model import NativeModel

        return NativeModel(model)
    from .hf_model import HFModel

    return HFModel(model)


def targets_of(target: TextInput, tokenizer: AnyTokenizer, texts: int) -> Rows:
    """Token ids of what is to be said to each of so many texts, as the tokenizer makes them."""
    items: list[Any] = [target] if isinstance(target, str) else list(to_list(target))
    items = [items] if items and isinstance(items[0], int) else items
    reader = reader_of(tokenizer)
    rows = [reader.target(text) if isinstance(text, str) else list(to_list(text)) for text in items]
    if len(rows) != texts:
        raise uneven(texts, len(rows))
    return rows


def sides_of(
    parts: Iterable[str], source: list[Tokens], target: list[Tokens], ahead: list[Tokens], memory: list[Tokens]
) -> tuple[Sides, Sides]:
    """The tokens that ask and those that are looked at, by part; a row of cross-attention is known by the word it makes,
    `ahead`."""
    queries = {"encoder": source, "decoder": target, "cross": ahead, "mixers": target}
    keys = queries | {"cross": memory}
    return {part: queries[part] for part in parts}, {part: keys[part] for part in parts}


def uneven(sources: int, targets: int) -> Problem:
    """The problem of texts and targets that aren't as many."""
    return Problem(
        "there are {sources} texts and {targets} targets: give one for each", sources=sources, targets=targets
    )


def too_long(tokens: int, context: int) -> Problem:
    """The problem of a text beyond the positions that were learned."""
    return Problem(
        "the text has {tokens} tokens and this model learned {context} positions: shorten it",
        tokens=tokens,
        context=context,
    )
