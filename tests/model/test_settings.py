"""Every setting of a config.json is obeyed or refused: one at a time is changed, and ours says what transformers says.

What is changed: each number, word and switch that a config of transformers has, its second names, and settings that
other families have. Where transformers can't build or run the model there is nothing to compare with.
"""

import copy
import warnings

import pytest
import torch
from torch import nn

from qkv.model import weights
from qkv.words import Problem

from .test_families import CASES, TRANSLATORS, published, said, theirs

SOME = ["smollm, tied", "qwen2, a window of 4", "gpt2", "bert", "t5 1.0", "bart", "gemma 3"]
FAMILIES = [
    *SOME,
    *("llama 2", "mistral, a window of 6", "qwen2", "qwen3", "bert, the encoder alone", "roberta", "t5 1.1", "mbart"),
    *("marian", "mixtral", "mixtral, two experts each, a window, tied", "qwen3-moe"),
    *("qwen3-moe, some layers dense, shares as they are", "gemma", "gemma 2", "phi-3", "phi-3, long", "gpt-neox"),
    *("gpt-neox, one after the other, no bias in attention", "opt", "opt as of 350 M, no bias"),
    *("deepseek-v2", "deepseek-v2 lite, yarn", "deepseek-v3", "deepseek-v3, yarn, no groups, shares as they are"),
]
ACTIVATIONS = ("gelu", "silu", "relu", "gelu_new", "quick_gelu", "relu2", "gelu_pytorch_tanh", "mish", "gated-silu")
# Settings that families have and others don't: told of one that doesn't know it, transformers ignores it, or not.
ELSEWHERE = {
    **dict(is_causal=True, partial_rotary_factor=1.0, attention_bias=False, mlp_bias=False, use_sliding_window=False),
    **dict(sliding_window=None, final_logit_softcapping=None, logit_scale=1.0, original_max_position_embeddings=None),
    **dict(position_embedding_type="absolute", is_decoder=False, scale_attn_weights=True, normalize_before=False),
}
NO_SETTINGS = ("model_type", "architectures", "transformers_version", "_name_or_path", "dtype")


class Held(dict):
    """Tensors as a reader of files gives them."""

    @property
    def shapes(self):
        return {name: tuple(tensor.shape) for name, tensor in self.items()}


def others(value):
    """Other values of the same kind, the most telling first."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 2 * value, value - 1, 0] if value else [1, 2]
    if isinstance(value, float):
        return [1.7 * value + 0.05, 0.5, 1.0, 0.0]
    if isinstance(value, str):
        return list(ACTIVATIONS)
    return [3, True, False, 0, 0.5] if value is None else []


def changes(name):
    """(setting, value) for all there are."""
    case = CASES[name]
    told = theirs(name, exact=False).config.to_dict()
    second = {word: told.get(first) for word, first in case.config.attribute_map.items()}
    for key, value in (ELSEWHERE | second | told).items():
        if key not in NO_SETTINGS:
            yield from ((key, other) for other in others(value))
    if "rope_parameters" in told:
        rope = told["rope_parameters"]
        yield from (("rope_parameters", rope | {key: other}) for key in rope for other in others(rope[key]))
        for kind in ({"type": "linear"}, {"rope_type": "yarn"}, {"rope_type": "dynamic"}, {"rope_type": "llama3"}):
            yield "rope_scaling", kind | {"factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
            yield "rope_scaling", kind | {"factor": 2.0}
    if told.get("layer_types"):
        layers = ["sliding_attention", "full_attention"] * len(told["layer_types"])
        yield from (("layer_types", layers[at : at + len(told["layer_types"])]) for at in (0, 1))
        yield "layer_types", layers[::2][: len(told["layer_types"])]


def drawn(model):
    """The same numbers for every model of these shapes, small enough that float32 angles don't show."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, weight in [*model.named_parameters(), *model.named_buffers()]:
            if weight.is_floating_point() and "inv_freq" not in name and (weight.requires_grad or weight.ndim == 2):
                if isinstance(weight, nn.Parameter) and not weight.requires_grad:
                    continue  # Marian's sines
                near = float("norm" in name.lower() or ".ln_" in name) * name.endswith("weight")
                weight.copy_(near + 0.2 * torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    return model


@torch.no_grad()
def answer(name, told):
    """transformers' logits and the tensors, or None where it can't."""
    case = CASES[name]
    try:
        model = case.make(case.config.from_dict(copy.deepcopy(told))).double().eval()
        case.change(model)
        if hasattr(model.config, "num_experts_per_tok"):
            model.set_experts_implementation("eager")  # the one that takes float64
        model.config.update({key: told[key] for key in ("scale_decoder_outputs",) if key in told})
        drawn(model)
        logits = said(model(**asked(name)))
    except Exception:  # of any kind: shapes, indices, checks of the config
        return None
    kept = {
        key: tensor for key, tensor in model.state_dict().items() if "embed_positions" not in key or "mar" not in name
    }
    return (logits, Held(published(model, kept))) if torch.isfinite(logits).all() else None


def asked(name):
    ids = torch.randint(3, 36, (2, 15), generator=torch.Generator().manual_seed(1))
    return dict(input_ids=ids, decoder_input_ids=ids.flip(1)) if name in TRANSLATORS else dict(input_ids=ids)


@torch.no_grad()
def obeyed(name, told):
    """Whether ours says the same; None if it refuses, or if there is nothing to compare with."""
    found = answer(name, told)
    if found is None:
        return None
    wanted, tensors = found
    try:
        model = weights.build("here", copy.deepcopy(told), tensors, torch.float64)
    except Problem:
        return None
    given = asked(name)
    ours = model(given["decoder_input_ids"], given["input_ids"]) if name in TRANSLATORS else model(given["input_ids"])
    return ours.shape == wanted.shape and bool((ours - wanted).abs().max() < 1e-5 * max(1.0, float(wanted.abs().max())))


def disobeyed(name, every):
    told = theirs(name, exact=False).config.to_dict()
    told["model_type"] = CASES[name].config.model_type
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert obeyed(name, told)
        seen, wrong = set(), []
        for key, value in changes(name):
            if every or key not in seen or key in ("rope_scaling", "rope_parameters", "layer_types"):
                seen.add(key)
                if obeyed(name, told | {key: value}) is False:
                    wrong.append((key, value))
    return wrong


@pytest.mark.parametrize("name", SOME)
def test_a_setting_is_obeyed_or_refused(name):
    assert disobeyed(name, every=False) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_value_of_a_setting_is_obeyed_or_refused(name):
    assert disobeyed(name, every=True) == []
