"""The protocol by which models are traced and edited; native_model.py and hf_model.py implement it.

    model_of(model).heads()          the number of heads of each layer, by part
    model_of(model).trace(…)         a trace

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

MAX_TARGET = 128  # tokens that an encoder-decoder may generate if there is no target

Layer = tuple[str, int]  # part, number
TextInput = str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]] | Tensor


@dataclass(frozen=True)
class TraceRequest:
    """The arguments of `qkv.trace`, and the listener of `stream_trace`."""

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
    """The ids of a text and a function that runs the model on ids."""

    run: Callable[[Tensor], Tensor]  # ids (B, N) → logits (B, N, V)
    ids: Tensor  # (B, N): of the decoder if there are two stacks
    real: Tensor  # (B, N): False for padding


class Model(Protocol):
    """A model that can be traced and edited."""

    @property
    def kind(self) -> str:
        """encoder, decoder or encoder-decoder."""

    @property
    def context(self) -> int | None:
        """The context length, None if it is unknown."""

    has_static_layers: bool  # True if its layers and heads are known before it has run

    def heads(self) -> dict[str, dict[int, int]]:
        """Return the number of heads of each layer that attends, by part."""

    def trace(self, request: TraceRequest) -> Trace:
        """Run the model on a text and return the trace."""

    def prepare(self, source: TextInput, tokenizer: AnyTokenizer, target: TextInput | None = None) -> PreparedText:
        """Prepare a text, ids, or a batch of either, to run the model on it repeatedly."""

    def translate(self, text: str, tokenizer: AnyTokenizer, *, cache: bool = True) -> str:
        """Return the greedy translation of an encoder-decoder."""

    def editing(self, layers: Iterable[Layer]) -> AbstractContextManager[Mapping[Layer, str]]:
        """Make these layers editable inside the block; give their names for `replace_weights`."""


def model_of(model: object) -> Model:
    """Return the adapter of a qkv or transformers model; refuse any other object."""
    from ...model.transformer import Transformer

    if isinstance(model, Transformer):
        from .native_model import NativeModel

        return NativeModel(model)
    from .hf_model import HFModel

    return HFModel(model)


def targets_of(target: TextInput, tokenizer: AnyTokenizer, texts: int) -> Rows:
    """Return the ids of the targets, one row per text."""
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
    """Return the tokens of queries and keys, by part. A row of cross-attention is labelled by the word it predicts (`ahead`)."""
    queries = {"encoder": source, "decoder": target, "cross": ahead, "mixers": target}
    keys = queries | {"cross": memory}
    return {part: queries[part] for part in parts}, {part: keys[part] for part in parts}


def uneven(sources: int, targets: int) -> Problem:
    """Return the problem of different numbers of texts and targets."""
    return Problem(
        "there are {sources} texts and {targets} targets: give one for each", sources=sources, targets=targets
    )


def too_long(tokens: int, context: int) -> Problem:
    """Return the problem of a text longer than the learned positions."""
    return Problem(
        "the text has {tokens} tokens and this model learned {context} positions: shorten it",
        tokens=tokens,
        context=context,
    )
