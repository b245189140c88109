"""Every setting of a config.json is obeyed or refused: one at a time is changed, and ours says what transformers says.

Each setting that a config of transformers has, and each second name of one, is left out, set to null, flipped, doubled,
halved and changed to other values of its kind; and settings of other families are added. Where transformers can't build or
run the model there is nothing to compare with; then qkv may load it or refuse it with a sentence, but not fail.
"""

import copy
import math
import warnings
from collections import Counter
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from transformers.initialization import no_init_weights

from qkv.formats import model_files
from qkv.i18n import Problem

from .test_families import CASES, TRANSLATORS, Exact, logits_of, published, theirs

DAILY = ["smollm, tied", "qwen2, a window of 4", "gpt2", "bert", "t5 1.0", "bart", "gemma 3"]
ALL = [
    *DAILY,
    *("llama 2", "mistral, a window of 6", "qwen2", "qwen3", "bert, the encoder alone", "roberta", "t5 1.1", "mbart"),
    *("marian", "mixtral", "mixtral, two experts each, a window, tied", "qwen3-moe"),
    *("qwen3-moe, some layers dense, shares as they are", "gemma", "gemma 2", "phi-3", "phi-3, long", "gpt-neox"),
    *("gpt-neox, one after the other, no bias in attention", "opt", "opt as of 350 M, no bias"),
    *("deepseek-v2", "deepseek-v2 lite, yarn", "deepseek-v3", "deepseek-v3, yarn, no groups, shares as they are"),
    *("mamba2", "bamba", "bamba with biases", "qwen3-next", "mt5", "xlm-roberta", "camembert"),
]
ACTIVATIONS = ("gelu", "silu", "relu", "gelu_new", "quick_gelu", "relu2", "gelu_pytorch_tanh", "mish", "gated-silu")
# Settings of some families, added to each of the others: transformers ignores them there, or obeys them.
FOREIGN = {
    **dict(is_causal=False, is_decoder=True, is_encoder_decoder=True, add_cross_attention=True),
    **dict(use_bidirectional_attention=True, position_embedding_type="relative_key", alibi=True),
    **dict(sliding_window=3, use_sliding_window=True, max_window_layers=1, attention_chunk_size=4),
    **dict(layer_types=["sliding_attention"] * 3, no_rope_layers=[0, 1, 0], original_max_position_embeddings=8),
    **dict(rope_theta=77.0, rotary_emb_base=77.0, rotary_pct=0.5, partial_rotary_factor=0.5, rope_interleave=False),
    **dict(head_dim=6, v_head_dim=3, d_kv=4, query_pre_attn_scalar=7, num_key_value_heads=1, n_head=2),
    **dict(attention_bias=True, mlp_bias=True, use_bias=True, clip_qkv=0.1, qk_layernorm=True, use_qk_norm=True),
    **dict(attn_logit_softcapping=2.0, final_logit_softcapping=2.0, logit_scale=0.5, logits_scaling=2.0),
    **dict(embedding_multiplier=2.0, residual_multiplier=0.5, attention_multiplier=0.3, scale_embedding=True),
    **dict(rms_norm_eps=0.1, layer_norm_eps=0.1, layer_norm_epsilon=0.1, hidden_act="relu", hidden_activation="relu"),
    **dict(activation_function="relu", scale_attn_weights=False, scale_attn_by_inverse_layer_idx=True),
    **dict(normalize_before=True, do_layer_norm_before=False, use_parallel_residual=False, tie_word_embeddings=True),
    **dict(num_experts=4, num_local_experts=4, num_experts_per_tok=1, n_shared_experts=1, pruned_heads={"0": [0]}),
    **dict(scale_decoder_outputs=False, tie_encoder_decoder=True, time_step_limit=[0.0, 0.1], attn_output_gate=False),
}
DAILY_FOREIGN = (  # of them, for the fast test
    *("is_causal", "is_decoder", "position_embedding_type", "sliding_window", "use_sliding_window", "attention_bias"),
    *("partial_rotary_factor", "head_dim", "mlp_bias", "final_logit_softcapping", "scale_attn_weights", "logit_scale"),
)
NO_SETTINGS = ("model_type", "architectures", "transformers_version", "_name_or_path", "dtype")
MOST = 2_000_000  # weights of a model that is compared: some sizes left out are those of a model of 7 billion
OMITTED = object()


class FileTensors(dict):
    """Tensors as a reader of files gives them."""

    @property
    def shapes(self):
        return {name: tuple(tensor.shape) for name, tensor in self.items()}


def others(value):
    """Other values of the same kind, the most telling first."""
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int):
        return [value + 1, 2 * value, value // 2, 0, None] if value else [1, 2, None]
    if isinstance(value, float):
        return [1.7 * value + 0.05, 2 * value, value / 2, 0.0, None]
    if isinstance(value, str):
        return [*ACTIVATIONS, None] if value in ACTIVATIONS else ["relu", "gated-silu", None]
    return [3, True, False, 0.5] if value is None else [None]


def changes(name):
    """(setting, value) for all there are."""
    case = CASES[name]
    config = theirs(name, exact=False).config.to_dict()
    second = {word: config.get(first) for word, first in case.config.attribute_map.items()}
    for key, value in (second | config).items():
        if key not in NO_SETTINGS:
            yield from ((key, other) for other in others(value))
            yield key, OMITTED
    yield from FOREIGN.items()
    rope = config.get("rope_parameters") or {}
    for key, value in rope.items():
        yield from (("rope_parameters", rope | {key: other}) for other in others(value))
        yield "rope_parameters", {word: other for word, other in rope.items() if word != key}
    for kind in ({"type": "linear"}, {"rope_type": "yarn"}, {"rope_type": "dynamic"}, {"rope_type": "llama3"}):
        yield "rope_scaling", kind | {"factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        yield "rope_scaling", kind | {"factor": 2.0}
    if config.get("layer_types"):
        layers = ["sliding_attention", "full_attention"] * len(config["layer_types"])
        yield from (("layer_types", layers[at : at + len(config["layer_types"])]) for at in (0, 1))
        yield "layer_types", layers[::2][: len(config["layer_types"])]


def changed(config, key, value):
    """The config.json with one setting changed."""
    config = {**config, key: value}
    return {name: v for name, v in config.items() if v is not OMITTED}


def with_random_weights(model):
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
def hf_answer(name, config, large=False):
    """transformers' logits and the tensors, or None where it can't, or where it is `large` and that is too large."""
    case = CASES[name]
    try:
        hf_config = case.config.from_dict(copy.deepcopy(config))
        scaled = getattr(hf_config, "scale_decoder_outputs", None)  # which the change of a T5 1.1 sets
        with torch.device("meta"):
            if large and sum(weight.numel() for weight in case.make(copy.deepcopy(hf_config)).parameters()) > MOST:
                return None
        with nullcontext() if "marian" in name else no_init_weights():  # whose sines are made there
            model = case.make(hf_config).double().eval()
        model.tie_weights()
        case.change(model)
        if hasattr(model.config, "num_experts_per_tok"):
            model.set_experts_implementation("eager")  # the one that takes float64
        if scaled is not None:
            model.config.scale_decoder_outputs = scaled
        with_random_weights(model)
        with Exact() if name == "qwen3-next" else nullcontext():  # whose loops in float32 are off by 2e-5
            logits = logits_of(model(**model_inputs(name)))
    except Exception:  # of any kind: shapes, indices, checks of the config
        return None
    tensors = {
        key: tensor for key, tensor in model.state_dict().items() if "embed_positions" not in key or "mar" not in name
    }
    return (logits, FileTensors(published(model, tensors))) if torch.isfinite(logits).all() else None


def model_inputs(name):
    ids = torch.randint(3, 36, (2, 15), generator=torch.Generator().manual_seed(1))
    return dict(input_ids=ids, decoder_input_ids=ids.flip(1)) if name in TRANSLATORS else dict(input_ids=ids)


def read(name, config, tensors):
    """What ours says, read from a config.json and tensors."""
    model = model_files.build("here", copy.deepcopy(config), tensors, torch.float64)
    inputs = model_inputs(name)
    ids = inputs["input_ids"]
    return model(inputs["decoder_input_ids"], ids) if name in TRANSLATORS else model(ids)


@torch.no_grad()
def outcome(name, config, file, large=False):
    """How qkv reads a config.json: "same" as transformers, "refused", "alone" if transformers can't, or what is wrong.

    `file` has the tensors of the model as it was, for where transformers can't build the changed one.
    """
    answer = hf_answer(name, config, large)
    expected, tensors = (None, file) if answer is None else answer
    try:
        ours = read(name, config, tensors)
    except Problem:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if expected is None:
        return "alone"
    if ours.shape != expected.shape:
        return f"{tuple(ours.shape)} instead of {tuple(expected.shape)}"
    off = float((ours - expected).abs().max()) / max(1.0, float(expected.abs().max()))
    return "same" if off < 1e-5 else f"{off:.2g} off"


def config_of(name):
    config = theirs(name, exact=False).config.to_dict()
    return config | {"model_type": CASES[name].config.model_type}


def trial(name, every):
    """How often each outcome came, and the changes with another outcome than they should have."""
    config = config_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = hf_answer(name, config)[1]
        assert outcome(name, config, file) == "same"
        tried, counts, wrong = set(), Counter(), []
        for key, value in changes(name):
            if not every and key not in config and key in FOREIGN and key not in DAILY_FOREIGN:
                continue
            if every or key not in tried or key in ("rope_scaling", "rope_parameters", "layer_types"):
                tried.add(key)
                result = outcome(name, changed(config, key, value), file, value is OMITTED)
                counts[result] += 1
                if result not in ("same", "refused", "alone"):
                    wrong.append((key, "left out" if value is OMITTED else value, result))
    return counts, wrong


@pytest.mark.parametrize("name", DAILY)
def test_a_setting_is_obeyed_or_refused(name):
    assert trial(name, every=False)[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_single_change_of_a_setting_is_obeyed_or_refused(name):
    counts, wrong = trial(name, every=True)
    assert wrong == []
    assert counts["same"] > counts.total() / 3 and counts["refused"] > 10, counts  # neither is all refused nor nothing


NONSENSE = (math.inf, math.nan, 10**12, 10**400, -1, "x" * 1_000_000, [], {}, [[[[None]]]])


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
@torch.no_grad()
def test_nonsense_in_a_setting_is_refused_or_harmless(name):
    config, wrong = config_of(name), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = hf_answer(name, config)[1]
        for key, value in ((key, value) for key in config for value in NONSENSE):
            try:
                read(name, config | {key: value}, file)
            except Problem as problem:
                if max(len(str(problem)), len(problem.say("zh"))) > 5000:
                    wrong.append((key, repr(value)[:20], "a sentence too long"))
            except Exception as error:
                wrong.append((key, repr(value)[:20], repr(error)[:200]))
    assert wrong == []
