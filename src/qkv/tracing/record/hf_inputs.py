"""The inputs of a `transformers` model: tensors made of texts, ids or a tokenizer's result, the decoder's side, and labels.

The positions of images and audio (`pixel_values`, `input_features`) are labelled too: patches by row and column, others by
number.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ...i18n import Notice, Problem, all_of, one_of, quoted
from ..views.token_labels import Tokens
from .hf_attention import OTHER_MODALITIES, Inputs, PretrainedModel, context_of, side_of
from .model_protocol import MAX_TARGET, TextInput, targets_of, too_long
from .streaming import StreamStopped
from .tokenizer_protocol import AnyTokenizer, ids_of, is_encoding, padded, reader_of

NON_TEXT_INPUTS = ("pixel_values", "input_features", "input_values")  # inputs of models that read no text
POSITIONS = re.compile(r"(wpe|embed_positions|position_embeddings?)$")


@contextmanager
def eval_mode(model: PretrainedModel) -> Iterator[None]:
    """Disable gradients and dropout inside the block; restore the training mode of each module afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def inputs_of(model: PretrainedModel, source: Any, tokenizer: AnyTokenizer) -> Inputs:
    """Return the tensors to call the model with."""
    if is_encoding(source):
        return _tensors(model, dict(source))
    reader = reader_of(tokenizer)
    texts = [source] if isinstance(source, str) else source
    encoded: Inputs = {"input_ids": None}
    if not isinstance(texts, Tensor) and len(texts) and isinstance(texts[0], str):
        encoded = reader.batch(texts)
        if not all(encoded["input_ids"]):
            raise Problem('the text is empty: give at least one word, as in  qkv steps "我 爱 北京"')
    if len(encoded) > 1:  # with a mask, or types
        inputs = _tensors(model, encoded)
        parameters = inspect.signature(model.forward).parameters
        mask = inputs.get("attention_mask")
        if mask is not None and bool(mask.all()):
            inputs.pop("attention_mask")
        elif mask is not None and not bool(mask[:, 0].all()) and "position_ids" in parameters and model.can_generate():
            # A text padded on the left begins at position 0, as it does alone.
            inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
        return {key: value for key, value in inputs.items() if key in parameters or key == "input_ids"}
    rows = encoded["input_ids"] or ids_of(source, tokenizer)
    return _rows(model, reader.source(rows) if model.config.is_encoder_decoder else rows)


def _tensors(model: PretrainedModel, inputs: Inputs) -> Inputs:
    """Return a tokenizer's result as tensors on the model's device; lists of different lengths are padded."""
    if isinstance(ids := inputs.get("input_ids"), list) and len({len(row) for row in ids}) > 1:
        return _rows(model, ids)
    main = "input_ids" if ids is not None else next((key for key in NON_TEXT_INPUTS if key in inputs), None)
    if main is None:
        raise Problem(
            "a dict for the model needs input_ids, or {others}; it has {keys}",
            keys=all_of(inputs) if inputs else "{}",
            others=one_of(NON_TEXT_INPUTS),
        )
    tensors: Inputs = {
        key: value if isinstance(value, bool | str) else torch.as_tensor(value) for key, value in inputs.items()
    }
    if tensors[main].numel() == 0:
        raise Problem('the text is empty: give at least one word, as in  qkv steps "我 爱 北京"')
    return {key: value.to(model.device) if isinstance(value, Tensor) else value for key, value in tensors.items()}


def _rows(model: PretrainedModel, rows: Sequence[Sequence[int]], prefix: str = "") -> Inputs:
    """Return lists of ids as a batch, padded on the right, with a mask if any is padded."""
    pad = getattr(model.config, "pad_token_id", None)
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0 if pad is None else pad] * (longest - len(row))] for row in rows])
    batch = {f"{prefix}input_ids": ids.to(model.device)}
    if len({len(row) for row in rows}) > 1:
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        batch[f"{prefix}attention_mask"] = mask.to(model.device)
    return batch


def target_of(model: PretrainedModel, inputs: Inputs, tokenizer: AnyTokenizer, target: TextInput | None) -> Inputs:
    """Return the decoder's inputs: the target, or else what the model generates, with the start token but not the end."""
    if "decoder_input_ids" in inputs:
        return {}
    if target is None:
        return _rows(model, generate_ids(model, inputs, tokenizer), "decoder_")
    rows = targets_of(target, tokenizer, batch_size(inputs))
    roles = (_token_id(model, f"{what}_token_id") for what in ("decoder_start", "bos", "pad"))
    start: Any = next((i for i in roles if i is not None), 0)
    rows = [row if row[:1] == [start] else [start, *row] for row in rows]
    return _rows(model, [_cut_at_eos(model, row, tokenizer) for row in rows], "decoder_")


def generate_ids(
    model: PretrainedModel, inputs: Inputs, tokenizer: AnyTokenizer = None, limit: int = MAX_TARGET, **options: object
) -> list[list[int]]:
    """Return the greedy output of an encoder-decoder: token ids with the start token but not the end."""
    if not model.can_generate():
        raise Problem("{model} can't say anything by itself: give target=", model=type(model).__name__)
    arguments = inputs
    if "input_ids" in inputs:
        arguments = {"attention_mask": torch.ones_like(inputs["input_ids"])} | inputs
    with eval_mode(model):
        with _explaining_failures(model):
            generated = model.generate(
                **arguments, do_sample=False, num_beams=1, max_new_tokens=target_limit(model, limit), **options
            )
    return [_cut_at_eos(model, row, tokenizer) for row in generated.tolist()]


def target_limit(model: PretrainedModel, limit: int) -> int:
    """Return `limit`, or the number of positions after the start token if that is less."""
    config = model.config.get_text_config(decoder=True)
    return min(limit, (getattr(config, "max_position_embeddings", None) or limit + 1) - 1)


def _token_id(model: PretrainedModel, what: str) -> int | list[int] | None:
    token_id = getattr(getattr(model, "generation_config", None), what, None)
    return getattr(model.config, what, None) if token_id is None else token_id


def _cut_at_eos(model: PretrainedModel, row: list[int], tokenizer: AnyTokenizer) -> list[int]:
    """Cut a decoder's row before its first end token; BART's rows also start with one."""
    eos = _token_id(model, "eos_token_id")
    ends = {*(eos if isinstance(eos, list) else [eos]), reader_of(tokenizer).eos}
    return row[: next((i for i in range(1, len(row)) if row[i] in ends), len(row))]


def check(model: PretrainedModel, inputs: Inputs, prefix: str = "") -> dict[str, int]:
    """Refuse ids outside the vocabulary and texts longer than the learned positions.

    If positions aren't learned, a text beyond the model's context only leads to a notice: see note_context.
    """
    from ...generation.prefill import as_rows, note_context

    ids = inputs.get(f"{prefix}input_ids")
    if ids is None:
        return {}
    vocabulary = _vocabulary(model, prefix)
    as_rows("prompt" if prefix else "source", ids, int(ids.max()) + 1 if vocabulary is None else vocabulary)
    capacities = []
    other = ("encoder" if prefix else "decoder") if is_seq2seq(model) else None
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and POSITIONS.search(name) and not OTHER_MODALITIES.search(name):
            if other is None or side_of(name) != other:
                reserved = getattr(module, "offset", 0) or (0 if module.padding_idx is None else module.padding_idx + 1)
                capacities.append(module.num_embeddings - reserved)
    if capacities and ids.shape[1] > min(capacities):
        raise too_long(ids.shape[1], min(capacities))
    return note_context(ids.shape[1], context_of(model))


def _vocabulary(model: PretrainedModel, prefix: str) -> int | None:
    """Return the size of the vocabulary on this side, None if it is unknown."""
    side = model.decoder if prefix and hasattr(model, "decoder") else model  # an encoder-decoder of two models
    try:
        size = getattr(side.get_input_embeddings(), "num_embeddings", None)
    except (NotImplementedError, AttributeError):  # two towers, or `side` is not a model
        size = None
    return size or getattr(model.config.get_text_config(), "vocab_size", None)


def is_seq2seq(model: PretrainedModel) -> bool:
    """True if the model is an encoder-decoder for text."""
    return bool(model.config.is_encoder_decoder) and "decoder_input_ids" in inspect.signature(model.forward).parameters


def batch_size(inputs: Inputs) -> int:
    """Return the number of texts, images or sounds."""
    return next(len(inputs[key]) for key in ("input_ids", *NON_TEXT_INPUTS) if key in inputs)


def entry_point(model: PretrainedModel, inputs: Inputs) -> Any:
    """Return what to call: the model, or, of a model with two towers (CLIP), the one that reads these inputs."""
    for own_key, others, name in (
        ("input_ids", NON_TEXT_INPUTS, "get_text_features"),
        ("pixel_values", ("input_ids",), "get_image_features"),
        ("input_features", ("input_ids",), "get_audio_features"),
    ):
        other_keys = [key for key in others if key in inspect.signature(model.forward).parameters]
        is_alone = own_key in inputs and other_keys and not any(key in inputs for key in others)
        if is_alone and hasattr(model, name) and not model.can_generate():
            return getattr(model, name)
    return model


def warn_two_towers(model: PretrainedModel, inputs: Inputs) -> None:
    """Warn that only the text is traced by a model with two separate towers (CLIP) if both inputs are given."""
    both = "input_ids" in inputs and "pixel_values" in inputs
    if both and hasattr(model, "get_image_features") and hasattr(model, "get_text_features"):
        if not model.can_generate():
            warnings.warn(
                Notice(
                    "{model} reads text and picture apart: this is what looks at the text; for the picture, give "
                    "pixel_values alone",
                    model=type(model).__name__,
                ),
                stacklevel=5,
            )


def run(model: PretrainedModel, inputs: Inputs) -> Any:
    """Return the output of the model's forward pass; errors inside the model become a `Problem`."""
    with _explaining_failures(model):
        return entry_point(model, inputs)(**inputs)


@contextmanager
def _explaining_failures(model: PretrainedModel) -> Iterator[None]:
    """Turn an error inside the model into a `Problem`."""
    try:
        yield
    except (Problem, StreamStopped):
        raise
    except Exception as error:
        raise Problem(
            "{model} failed on this input: {error}; if it reads more than text, give trace() a dict with all of it",
            model=type(model).__name__,
            error=quoted(error),
        ) from error


def tokens_of(tokenizer: AnyTokenizer, inputs: Inputs, prefix: str = "") -> list[Tokens]:
    """Return the labels of every row."""
    ids = inputs[f"{prefix}input_ids"].tolist()
    mask = inputs.get(f"{prefix}attention_mask")
    rows = [[True] * len(row) for row in ids] if mask is None or mask.ndim != 2 else (mask > 0).tolist()
    reader = reader_of(tokenizer)
    return [padded(reader, row, row_mask) for row, row_mask in zip(ids, rows, strict=True)]


def position_labels(model: PretrainedModel, inputs: Inputs, count: int) -> Tokens:
    """Label positions that aren't text: patches of an image by row and column, others by number.

    If a model puts tokens of its own before its patches, the first of them is [CLS].
    """
    names = [f"[{i}]" for i in range(count)]
    tall, wide = _grid(model.config, inputs)
    extra = count - tall * wide
    if not tall * wide or not 0 <= extra <= 8:
        return Tokens(tuple(names))
    # The space keeps neighbouring labels apart when tokens are joined to words.
    names[extra:] = [f" {i},{j}" for i in range(tall) for j in range(wide)]
    names[:extra] = ["[CLS]", *names[1:extra]] if extra else []
    return Tokens(tuple(names), tuple(i < extra for i in range(count)))


def _grid(config: object, inputs: Inputs) -> tuple[int, int]:
    """Return the rows and columns of an image's patches, 0 if they are unknown."""
    vision = next((part for what in ("vision_config", "encoder") if (part := getattr(config, what, None))), config)
    patch = getattr(vision, "patch_size", None)
    patch = patch[0] if isinstance(patch, list | tuple) and len(set(patch)) == 1 else patch
    pixels = inputs.get("pixel_values")
    if not isinstance(patch, int) or pixels is None or pixels.ndim != 4:
        return 0, 0
    return pixels.shape[2] // patch, pixels.shape[3] // patch
