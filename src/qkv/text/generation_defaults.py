"""The settings of a model's generation_config.json that change which tokens are generated.

`generation/token_constraints.py` applies them. Settings that would change the text and are not supported are reported
once, when the folder is read. Limits on the length are left to the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..disk.bounded_reading import JsonObject

GENERATION_CONFIG = "generation_config.json"
# Settings that change no token or are read elsewhere: special tokens, speed, further outputs, lengths.
IRRELEVANT = (
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "transformers_version"),
    *("_from_model_config", "_commit_hash", "trust_remote_code", "use_cache", "cache_implementation", "cache_config"),
    *("max_cache_len", "max_length", "max_new_tokens", "num_return_sequences", "output_attentions", "output_scores"),
    *("output_hidden_states", "output_logits", "return_dict_in_generate", "remove_invalid_values", "low_memory"),
    *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
    *("assistant_early_exit", "assistant_lookbehind", "target_lookbehind", "assistant_ensemble_weight", "use_mtp"),
    *("prompt_lookup_num_tokens", "max_matching_ngram_size", "speculation_type", "compile_config", "disable_compile"),
    *("continuous_batching_config", "prefill_chunk_size"),
)
# Unsupported settings, with the values at which they have no effect.
NEUTRAL: dict[str, tuple[object, ...]] = {
    **dict(typical_p=(1.0,), epsilon_cutoff=(0.0,), eta_cutoff=(0.0,), min_p=(0.0,), top_h=(1.0,)),
    **dict(encoder_repetition_penalty=(1.0,), guidance_scale=(1.0,), num_beam_groups=(1,), diversity_penalty=(0.0,)),
    **dict(penalty_alpha=(0.0,), renormalize_logits=(False,), token_healing=(False,), sequence_bias=({},)),
    **dict(dola_layers=(), constraints=([],), force_words_ids=([],), watermarking_config=(), stop_strings=([],)),
    **dict(max_time=(), forced_decoder_ids=([],)),
}
SAMPLING_ONLY = ("typical_p", "epsilon_cutoff", "eta_cutoff", "min_p", "top_h")  # no effect without sampling


@dataclass(frozen=True)
class GenerationDefaults:
    """Generation settings of a model's files, named as in transformers; None, 0 and () are unset."""

    forced_bos_token_id: int | None = None  # the first token
    forced_eos_token_id: tuple[int, ...] = ()  # the last token of a text of the maximum length
    min_length: int = 0  # no end token before this length
    min_new_tokens: int = 0  # or before so many new tokens
    suppress_tokens: tuple[int, ...] = ()  # never
    begin_suppress_tokens: tuple[int, ...] = ()  # never first
    bad_words_ids: tuple[tuple[int, ...], ...] = ()  # never in this sequence
    no_repeat_ngram_size: int = 0  # no n tokens twice
    encoder_no_repeat_ngram_size: int = 0  # no n tokens of the source
    repetition_penalty: float = 1.0
    # (start, factor): the end token becomes likelier after `start` new tokens
    exponential_decay_length_penalty: tuple[int, float] | None = None
    num_beams: int | None = None
    length_penalty: float | None = None
    early_stopping: bool | str = False
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None

    @property
    def is_unrestricted(self) -> bool:
        """True if every token is allowed everywhere."""
        return all(not getattr(self, name) for name in CONSTRAINTS)

    def sampling(self) -> dict[str, float | None]:
        """Return the sampling options, {} if the files don't set `do_sample`."""
        if self.do_sample is None:
            return {}
        if not self.do_sample:
            return {"temperature": 0.0}
        return {"temperature": self.temperature or 1.0, "top_k": self.top_k or None, "top_p": self.top_p}

    def as_config(self) -> JsonObject:
        """Return the settings that differ from the defaults, as in generation_config.json."""
        defaults = GenerationDefaults()
        return {name: value for name, value in vars(self).items() if value != getattr(defaults, name)}


CONSTRAINTS = (
    *("forced_eos_token_id", "min_length", "min_new_tokens"),
    *("suppress_tokens", "begin_suppress_tokens", "bad_words_ids"),
    *("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty"),
)


def read(settings: JsonObject, vocab: int, is_complete: bool = True) -> tuple[GenerationDefaults, JsonObject]:
    """Return the supported settings, and those that are ignored although they would change the text.

    If not `is_complete`, the settings are part of a config.json, and unknown names are not reported.
    """
    options: JsonObject = {}
    ignored: JsonObject = {}
    for name, value in settings.items():
        if value is None or name in IRRELEVANT:
            continue
        if name in READERS:
            read = READERS[name](value, vocab)
            if read is None:
                ignored[name] = value
            else:
                options[name] = read
        elif name in NEUTRAL:
            if value not in NEUTRAL[name] and (settings.get("do_sample") or name not in SAMPLING_ONLY):
                ignored[name] = value
        elif is_complete:
            ignored[name] = value
    defaults = GenerationDefaults(**options)
    if defaults.do_sample and (defaults.num_beams or 1) > 1:  # beam sampling is not supported
        ignored["do_sample"] = True
    return defaults, ignored


Reader = Callable[[object, int], object]  # (value, vocabulary size) → parsed value, None if unsupported


def _whole(least: int, most: float = math.inf) -> Reader:
    return lambda value, vocab: value if type(value) is int and least <= value <= most else None


def _number(fits: Callable[[float], bool]) -> Reader:
    """Return a reader of finite numbers, not bool, that `fits` accepts."""

    def read(value: object, vocab: int) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
            return None
        return float(value) if fits(float(value)) else None

    return read


def _token(value: object, vocab: int) -> int | None:
    return value if type(value) is int and 0 <= value < vocab else None


def _tokens(value: object, vocab: int) -> tuple[int, ...] | None:
    """Read an id or a list of ids. No upper limit: a model may have more rows than its vocabulary has names."""
    entries = value if isinstance(value, list) else [value]
    ids = tuple(i for i in entries if type(i) is int and i >= 0)
    return ids if len(ids) == len(entries) else None


def _words(value: object, vocab: int) -> tuple[tuple[int, ...], ...] | None:
    if not isinstance(value, list) or not all(isinstance(word, list) and word for word in value):
        return None
    words = [_tokens(word, vocab) for word in value]
    return None if None in words else tuple(word for word in words if word)


def _decay(value: object, vocab: int) -> tuple[int, object] | None:
    if not isinstance(value, list) or len(value) != 2 or _count(value[0], vocab) is None:
        return None
    factor = _above(value[1], vocab)
    return None if factor is None else (value[0], factor)


_count, _above = _whole(0), _number(lambda number: number > 0)
READERS: dict[str, Reader] = {
    **dict(forced_bos_token_id=_token, forced_eos_token_id=_tokens, min_length=_count, min_new_tokens=_count),
    **dict(suppress_tokens=_tokens, begin_suppress_tokens=_tokens, bad_words_ids=_words, no_repeat_ngram_size=_count),
    **dict(encoder_no_repeat_ngram_size=_count, repetition_penalty=_above, exponential_decay_length_penalty=_decay),
    **dict(num_beams=_whole(1, 1024), length_penalty=_number(lambda number: abs(number) <= 50)),
    **dict(early_stopping=lambda value, vocab: value if value in (True, False, "never") else None, temperature=_above),
    **dict(do_sample=lambda value, vocab: value if isinstance(value, bool) else None),
    **dict(top_k=_count, top_p=_number(lambda number: 0 < number <= 1)),
}
