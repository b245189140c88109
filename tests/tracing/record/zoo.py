"""Every model type of transformers, built small with random weights from its own default config.

`build("bloom")` gives a model of a few hundred thousand parameters: sizes in the config are recognised by their names and
cut down, what is counted per layer is left to the config class. A handful of types needs a word more (`MORE`). What no
size cures (a missing library, a config that wants a checkpoint) raises `Unbuildable`, with the reason.
"""

import inspect
import re
import warnings
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.utils import logging

from qkv.tracing.record.hf_inputs import entry_point

logging.set_verbosity_error()

LARGEST = 20_000_000  # parameters
WORDS = 100
WIDTH, HEADS, HEAD = 64, 4, 16
SIZES: list[tuple[str, int]] = [  # the first that matches; a size that is smaller already stays
    (r"^(rotary_dim|qk_nope_head_dim|qk_rope_head_dim)$", HEAD // 2),
    (r"(^|_)(head_dim|d_kv|attention_head_size|d_head|kv_channels|v_head_dim|dim_head)$", HEAD),
    (r"(^|_)(num_feat_extract_layers|num_lstm_layers|num_adapter_layers)$|^mamba_|^linear_", 1 << 30),
    (r"vocab_size|vocabulary_size$", WORDS),
    (r"num_key_value_heads$|num_kv_heads$|n_head_kv|multi_query_group_num", 2),
    (
        r"(hidden_size|d_model|n_embd|embed_dim|hidden_dim|emb_dim|embedding_size|model_dim|word_embed_proj_dim|projection_dim|"
        r"out_hidden_size|d_embed|embedding_dim|lru_width|output_dim|dim|width|encoder_hidden_dim|max_embed_dim)$",
        WIDTH,
    ),
    (r"(num_attention_heads|n_head|num_heads|attention_heads|n_heads|nhead|heads|num_attention_groups)$", HEADS),
    (r"lora_rank$", 16),
    (
        r"(intermediate_size|ffn_dim|d_ff|ffn_hidden_size|d_inner|n_inner|mlp_dim|ffn_size|dim_feedforward|feed_forward_size|"
        r"linear_units|inner_dim|block_ff_dim|intermediate_dim)$",
        96,
    ),
    (r"(num_hidden_layers|n_layer|num_layers|n_layers|encoder_layers|decoder_layers|depth|num_blocks|layers)$", 3),
    (
        r"(max_position_embeddings|n_positions|max_seq_len|max_sequence_length|max_target_positions|seq_length|n_ctx|"
        r"max_length|model_max_length)$",
        128,
    ),
    (r"(num_experts|n_routed_experts|num_local_experts|moe_num_experts|num_expert|ffn_num_experts)$", 4),
    (r"^(num_experts_per_tok(en)?|moe_topk|moe_k|top_k_experts|topk|n_expert_activated)$", 2),
    (r"^(n_group|topk_group|num_expert_group)$", 1),
    (r"^(index_topk)$", 4),
    (r"^sliding_window$", 6),
    (r"^image_size$", 32),
    (r"^patch_size$", 8),
]
WITHOUT = re.compile("linear|mamba|conv|recurrent|lightning|delta|moe|mlp")  # layers that have no weights to show
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
UNSAID = (  # what a config says of itself, or counts per layer
    "model_type transformers_version architectures _name_or_path id2label label2id dtype torch_dtype out_features "
    "out_indices per_layer_config stage_names"
).split()
MORE: dict[str, dict[str, Any]] = {
    "bamba": dict(mamba_n_heads=8, mamba_d_head=16, attn_layer_indices=[1, 4]),
    "falcon_h1": dict(mamba_n_heads=8, mamba_d_head=16, mamba_d_ssm=128),
    "granitemoehybrid": dict(
        mamba_n_heads=8, mamba_d_head=16, layer_types=["mamba", "attention"] * 2, num_hidden_layers=4
    ),
    "mamba2": dict(num_heads=8, head_dim=16),
    "gpt_neo": dict(attention_types=[[["global", "local"], 2]], num_layers=4, window_size=5),
    "esm": dict(vocab_size=WORDS, mask_token_id=4, pad_token_id=1),
    "esmc": dict(num_key_value_heads=HEADS, vocab_size=WORDS),
    "codegen": dict(n_ctx=128),
    "helium": dict(head_dim=HEAD),
    "deepseek_v2": dict(topk_group=1, num_experts_per_tok=2, n_group=1, topk_method="greedy"),
    "mistral4": dict(head_dim=16, qk_head_dim=16),
    "nemotron3_5_transcribe_asr_audio": dict(num_key_value_heads=HEADS),
    "nemotron3_diarization_audio": dict(num_key_value_heads=HEADS),
    "unlimited_ocr": dict(num_key_value_heads=HEADS),
    "lilt": dict(hidden_size=96),
    "layoutlmv3": dict(coordinate_size=10, shape_size=12),
    "step3p7": dict(sliding_window=6),
    "glm5_next": dict(num_key_value_heads=HEADS),
    "glm5_next_text": dict(num_key_value_heads=HEADS),
    "nemotron": dict(num_key_value_heads=2),
    "longcat_flash": dict(head_dim=HEAD // 2),
    "zamba": dict(
        attention_hidden_size=128,
        attention_head_dim=32,
        layers_block_type=["mamba", "hybrid", "mamba", "hybrid"],
        num_hidden_layers=4,
    ),
    "gemma3n_text": dict(
        layer_types=["sliding_attention", "full_attention"] * 2, num_hidden_layers=4, num_kv_shared_layers=0
    ),
    "lfm2_moe": dict(layer_types=["conv", "full_attention"] * 2, num_hidden_layers=4),
    "cohere_compass_text": dict(layer_types=["sliding_attention", "full_attention"] * 2, num_hidden_layers=4),
    "reformer": dict(num_hidden_layers=3, axial_pos_embds=False, attn_layers=["local", "lsh", "local"]),
    "xmod": dict(default_language="en_XX"),
    "zamba2": dict(
        attention_hidden_size=128,
        attention_head_dim=32,
        layers_block_type=["mamba", "hybrid", "mamba", "hybrid"],
        hybrid_layer_ids=[1, 3],
        num_hidden_layers=4,
        mamba_headdim=16,
        n_mamba_heads=8,
    ),
    "mobilebert": dict(embedding_size=64, true_hidden_size=64, intra_bottleneck_size=64),
    "perceiver": dict(d_latents=64, num_latents=16),
    "funnel": dict(block_sizes=[1, 1, 1]),
}
# Rotary angles for time, height and width: the shares of pairs that these models' code takes for granted are too large here.
MORE |= {
    kind: dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[4, 2, 2]))
    for kind in "qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text qwen2_5_omni_thinker paddleocr_vl glm4v glm4v_text glm46v "
    "glm_image glm_image_text glm_ocr glm_ocr_text glmga".split()
}
MORE |= {
    kind: dict(
        rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])
    )
    for kind in ("glm4v_moe", "glm4v_moe_text")
}
GAINS = {"hrm_text": 1.0}  # it has very many layers
KINDS = [
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM",
    "MODEL_FOR_MASKED_LM",
    "MODEL_FOR_CAUSAL_LM",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ",
    "MODEL",
]


class Unbuildable(Exception):
    """Why there is no small model of this type."""


def types() -> list[str]:
    """All that have a model class."""
    return [kind for kind in CONFIG_MAPPING_NAMES if classes(kind)]


def classes(kind: str) -> list[str]:
    """The names of the classes for a type, those that say words first."""
    names: list[str] = []
    for table in KINDS:
        named = getattr(modeling_auto, f"{table}_MAPPING_NAMES").get(kind, [])
        names += [named] if isinstance(named, str) else named
    return list(dict.fromkeys(names))


def small(config: Any, more: dict[str, Any]) -> Any:
    """The same kind of config with its sizes cut down, and those of the configs inside it."""
    kind = type(config)
    settings = {key: value for key, value in config.to_dict().items() if key not in UNSAID}
    layers = next((settings[key] for key in LAYERS if key in settings), None)
    for key in getattr(kind, "sub_configs", {}):
        inner = settings.pop(key, None)
        inner = getattr(config, key, None)
        if hasattr(inner, "to_dict"):
            settings[key] = small(inner, more)
    # Where layers are of several kinds, enough of them for each to occur.
    kinds = [
        set(value) for key, value in settings.items() if isinstance(value, list) and value and isinstance(value[0], str)
    ]
    several = any(len(each) > 1 for each in kinds) or any(
        re.search("^mamba_|^linear_|attn_layer", key) for key in settings
    )
    reduced: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, list | tuple) and layers and len(value) == layers:
            continue  # one for each layer
        if key == "image_size" and isinstance(value, list | tuple):
            value = [min(side, 32) for side in value]
        if key == "head_dim" and value is None:
            value = HEAD
        if isinstance(value, int) and not isinstance(value, bool):
            if re.search(r"_token_(id|index)$", key):
                value = value % (WORDS - 10) if value >= WORDS else value
            else:
                most = next((size for pattern, size in SIZES if re.search(pattern, key)), value)
                most = 6 if several and key in LAYERS else most
                value = min(value, most) if value > 0 else value
        if value is not None:
            reduced[key] = value
    if "qk_rope_head_dim" in settings and settings.get("head_dim") == settings["qk_rope_head_dim"]:
        reduced["head_dim"] = reduced["qk_rope_head_dim"]
    if "kv_lora_rank" in settings:  # such heads have keys of their own
        reduced["num_key_value_heads"] = HEADS
    reduced = {key: _sections(value, reduced) for key, value in reduced.items()}
    if "vocab_size" in settings or "image_size" not in settings:
        reduced |= {
            key: value for key, value in more.items() if key in inspect.signature(kind).parameters or key in settings
        }
    return kind(**reduced)


def _sections(value: Any, settings: dict[str, Any]) -> Any:
    """Rotary angles shared out among time, height and width: as many as a head has pairs."""
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("mrope_section"), list):
        share = value.get("partial_rotary_factor", settings.get("partial_rotary_factor", 1.0))
        pairs = int(settings.get("head_dim", HEAD) * share) // 2
        return value | {"mrope_section": [pairs - 2 * (pairs // 3), pairs // 3, pairs // 3]}
    return {key: _sections(inner, settings) for key, inner in value.items()}


def build(kind: str, implementation: str | None = None) -> Any:
    """A small model of this type, its weights large enough that its heads look somewhere."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            config = small(transformers.CONFIG_MAPPING[kind](), MORE.get(kind, {}))
            cls = getattr(transformers, classes(kind)[0])
            expected = cls.config_class
            if not isinstance(config, expected):
                inner = [getattr(config, key) for key in type(config).sub_configs]
                config = next((c for c in inner if isinstance(c, expected)), config)
            try:
                with torch.device("meta"):
                    size = sum(p.numel() for p in cls._from_config(config).parameters())
            except TypeError:  # some count with tensors as they are made
                size = 0
            if size > LARGEST:
                raise Unbuildable(f"{size} parameters")
            options = {} if implementation is None else {"attn_implementation": implementation}
            model = cls._from_config(config, **options).eval()
        except Unbuildable:
            raise
        except Exception as error:
            raise Unbuildable(
                f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
            ) from error
    sharpen(model)
    return model


def sharpen(model: Any) -> None:
    """Matrices drawn anew, so large that a softmax over their scores is far from even."""
    unscaled = hasattr(model.config, "relative_attention_num_buckets")  # T5's scores aren't made smaller by √d
    gain = 0.7 if unscaled else GAINS.get(model.config.model_type, 1.5)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2 and "conv" not in name:
                parameter.normal_(std=gain * parameter.shape[-1] ** -0.5)
            elif name.endswith(".temp"):  # ZAYA's scores are times this, and it begins at 0
                parameter.fill_(3.0)
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                module.weight.normal_()
    model.tie_weights()


def inputs(model: Any) -> list[dict[str, Tensor]]:
    """What may be given to it, to be tried in turn: some text, or a picture or sound of a size that its config speaks of."""
    parameters = inspect.signature(model.forward).parameters
    rng = torch.Generator().manual_seed(2)
    if "input_ids" in parameters:
        vocab = min(getattr(model.config.get_text_config(), "vocab_size", None) or WORDS, WORDS)
        batch = {"input_ids": torch.randint(vocab // 10, vocab - vocab // 5, (1, 11), generator=rng)}
        if "decoder_input_ids" in parameters:
            batch["decoder_input_ids"] = torch.randint(vocab // 10, vocab - vocab // 5, (1, 7), generator=rng)
        return [batch]
    target = {}
    if "decoder_input_ids" in parameters:
        target["decoder_input_ids"] = torch.randint(10, WORDS - 20, (1, 7), generator=rng)
    config = getattr(model.config, "vision_config", None) or getattr(model.config, "encoder", None) or model.config
    channels, side = getattr(config, "num_channels", 3), getattr(config, "image_size", 32)
    side = side[0] if isinstance(side, list | tuple) else side
    bins = getattr(config, "num_mel_bins", 80)
    shapes = {
        "pixel_values": [(1, channels, side, side), (1, 2, channels, side, side)],
        "input_features": [(1, bins, 2 * getattr(config, "max_source_positions", 20)), (1, 40, bins)],
        "input_values": [(1, 4000), (1, 1, 4000)],
    }
    name = next((name for name in shapes if name in parameters), None)
    return [{name: torch.randn(shape, generator=rng)} | target for shape in shapes[name]] if name else []


def own(model: Any, batch: dict[str, Tensor], **more: Any) -> Any:
    """The model's own forward, as anybody calls it."""
    parameters = inspect.signature(model.forward).parameters
    more |= {"use_cache": False} if "use_cache" in parameters else {}
    torch.manual_seed(3)  # ViT-MAE hides patches by chance
    with torch.no_grad():
        return entry_point(model, batch)(**batch, return_dict=True, **more)


def readable(model: Any) -> dict[str, Tensor] | None:
    """The first input that the model itself can read, and makes numbers of."""
    for batch in inputs(model):
        try:
            output = own(model, batch)
        except Exception:
            continue
        if not isinstance(output[0], Tensor) or not output[0].isnan().any():
            return batch
    return None


def maps(model: Any, batch: dict[str, Tensor]) -> dict[str, list[Tensor]]:
    """The weights that an eager model hands out, by the name of its field."""
    entry = entry_point(model, batch)
    parameters = inspect.signature(getattr(entry, "forward", entry)).parameters.values()
    if not any(p.name == "output_attentions" or p.kind is p.VAR_KEYWORD for p in parameters):
        return {}
    output = own(model, batch, output_attentions=True)
    fields = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    return {field: [table for table in output[field] if table is not None] for field in fields if output.get(field)}
