"""DeepSeek-V2 and V3: latent attention, and after some dense layers mixtures of experts with a shared expert.

V2 scores experts by softmax, V3 by sigmoid plus a bias that only affects the selection. Both may limit a token to a few
groups of experts. With YaRN, scores are scaled too.
"""

import math

from ...i18n import Message
from ...model.config import Config
from ...model.config_checks import layer_pattern
from ...model.mixture import Experts
from . import llama, mixtral
from .family import TensorRow, linear, need, supports
from .rotary_settings import read_rotary, rotary_table, write_rotary
from .setting_table import (
    ConfigReading,
    Form,
    HfConfig,
    Rule,
    Setting,
    Value,
    agreed_value,
    for_members,
    implied,
    require,
    required,
    value_of,
    write_only,
)

CLASSES = {"deepseek_v2": "DeepseekV2ForCausalLM", "deepseek_v3": "DeepseekV3ForCausalLM"}
SUPPORTED = supports(
    *("qk_norm", "window", "experts", "attention_scale"),
    position=("rotary", "none"),
    feed_forward=tuple(llama.ACTIVATIONS),
    bias=(False, "qkv out"),
    mixer=("latent",),
)


def member(config: Config) -> str:
    """Return transformers' model_type."""
    return "deepseek_v3" if config.experts is not None and config.experts.score == "sigmoid" else "deepseek_v2"


def obstacles(config: Config) -> list[Message]:
    """Requires experts after some dense layers, shared experts, and a scale that YaRN explains."""
    experts, is_v3 = config.experts, member(config) == "deepseek_v3"
    if experts is None:
        return [need("experts={…}", None)]
    needed = [] if experts.balance == is_v3 else [need(f"experts.balance={is_v3}", experts.balance)]
    hidden = experts.hidden or config.hidden_width
    if experts.shared is None or experts.shared % hidden:
        needed.append(need(f"experts.shared = {hidden} × n", experts.shared))
    if not is_v3 and experts.normed:
        needed.append(need("experts.normed=False", experts.normed))
    if "dense" in config.feed_forwards[config.feed_forwards.index("experts") :]:
        needed.append(need("experts.layers='dense×n experts×m'", repr(experts.layers)))
    if config.width % config.n_head:
        needed.append(need(Message("heads that divide the width"), f"n_head={config.n_head}"))
    if config.attention_scale is not None and (config.rotary.scaling or {}).get("kind") != "yarn":
        needed.append(need("attention_scale=None", config.attention_scale))
    return needed


def yarn_magnitude(factor: float, weight: float) -> float:
    """Return YaRN's attention factor for a stretch."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def check_heads(reading: ConfigReading) -> None:
    """Raise an error if heads share keys."""
    agreed_value(reading.hf_config, "num_attention_heads", "num_key_value_heads")


def read_angles(reading: ConfigReading) -> dict[str, Value]:
    """Return the angles and the scale of scores, which follows from YaRN's magnitudes."""
    hf_config, scale, rope = reading.hf_config, None, rotary_table(reading.hf_config)
    width = reading.settings["head_width"] + reading.settings["rope_width"]
    factor, mscale_all_dim, mscale = rope.get("factor"), rope.pop("mscale_all_dim", 0), rope.pop("mscale", 0)
    if rope.get("rope_type", rope.get("type", "default")) != "default" and factor:
        if mscale_all_dim and mscale:
            rope.setdefault("attention_factor", yarn_magnitude(factor, mscale) / yarn_magnitude(factor, mscale_all_dim))
        if mscale_all_dim:
            scale = width**-0.5 * yarn_magnitude(factor, mscale_all_dim) ** 2
        hf_config = hf_config | {"rope_scaling": rope, "rope_parameters": None}
    return dict(attention_scale=scale) | read_rotary(hf_config)


def write_angles(config: Config) -> HfConfig:
    """Return the angles; the scale of scores is written as YaRN's magnitude."""
    hf_config = write_rotary(config)
    if config.attention_scale is not None and config.rotary.scaling is not None:
        width = value_of(config, "head_width") + value_of(config, "rope_width")
        root = math.sqrt(config.attention_scale * math.sqrt(width))
        weight = 10 * (root - 1) / math.log(config.rotary.scaling["factor"])
        hf_config |= {
            name: hf_config[name] | {"mscale_all_dim": weight} for name in ("rope_scaling", "rope_parameters")
        }
    return hf_config


def read_layers(reading: ConfigReading) -> dict[str, Value]:
    """Return the layers with experts: all after the first few."""
    count, default = reading.settings["n_layer"], 3 if reading.member == "deepseek_v3" else 0
    dense = min(reading.hf_config.get("first_k_dense_replace", default) or 0, count)
    return {"experts.layers": layer_pattern(("dense",) * dense + ("experts",) * (count - dense))}


def write_layers(config: Config) -> HfConfig:
    """Return the number of dense layers."""
    return dict(first_k_dense_replace=config.feed_forwards.index("experts"))


def read_groups(reading: ConfigReading) -> dict[str, Value]:
    """Return our settings for groups of experts; DeepSeek-V2 with greedy routing has no groups."""
    hf_config, groups_per_token = reading.hf_config, reading.hf_config.get("topk_group")
    groups = {
        "experts.groups": hf_config.get("n_group") or 1,
        "experts.groups_per_token": 1 if groups_per_token is None else groups_per_token,
    }
    if reading.member == "deepseek_v3":
        require(hf_config, dict(topk_method="noaux_tc"))
        return groups
    if hf_config.get("topk_method", "greedy") == "greedy":
        return {}
    require(hf_config, dict(topk_method="group_limited_greedy"))
    return groups


def write_groups(config: Config) -> HfConfig:
    """Return the groups, and V2's name of the method."""
    experts = value_of(config, "experts")
    hf_config = dict(n_group=experts.groups, topk_group=experts.groups_per_token)
    if member(config) == "deepseek_v3":
        return hf_config
    return hf_config | dict(topk_method="greedy" if experts.groups == 1 else "group_limited_greedy")


def shared_experts(default: int) -> Setting:
    """Return the entry of the shared experts, which qkv has as a single wide one."""
    form = Form(
        lambda count, reading: reading.settings["experts.hidden"] * (count or 0) or None,
        lambda width, config: (width or 0) // value_of(config, "experts.hidden"),
    )
    return Setting("n_shared_experts", "experts.shared", default, form)


SETTINGS = (
    write_only("architectures", lambda config: [CLASSES[member(config)]]),
    required("rope_interleave", True),
    required("mlp_bias", False),
    required("moe_layer_freq", 1),
    required("ep_size", 1),
    required("partial_rotary_factor", 1.0),
    Setting("vocab_size", "vocab"),
    Setting("hidden_size", "width"),
    Setting("intermediate_size", "hidden"),
    Setting("num_hidden_layers", "n_layer"),
    Setting("num_attention_heads", "n_head", extra_names=("num_key_value_heads",)),
    Rule(check_heads),
    Setting("qk_nope_head_dim", "head_width"),
    Setting("qk_rope_head_dim", "rope_width", extra_names=("head_dim",)),
    *for_members("deepseek_v3", required("head_dim", lambda reading: reading.settings["rope_width"])),
    Setting("v_head_dim", "value_width"),
    Setting("kv_lora_rank", "rank"),
    Setting("q_lora_rank", "q_rank", 1536),
    Setting("max_position_embeddings", "context"),
    Setting("rms_norm_eps", "norm_eps", 1e-6),
    llama.ACTIVATION,
    Rule(llama.read_bias, lambda config: dict(attention_bias=bool(config.bias))),
    Rule(read_angles, write_angles, dict(rotary_base="rope_theta")),
    Setting("attention_dropout", "dropout", 0.0, falsy_is_missing=True),
    Setting("tie_word_embeddings", "tied", False),
    Setting("num_experts_per_tok", "experts.per_token"),
    Setting("moe_intermediate_size", "experts.hidden"),
    Rule(read_layers, write_layers),
    Rule(read_groups, write_groups, {"experts.groups": "n_group", "experts.groups_per_token": "topk_group"}),
    *for_members(
        "deepseek_v2",
        Setting("n_routed_experts", "experts.count", 64, alias="num_experts"),
        shared_experts(2),
        Setting("routed_scaling_factor", "experts.scale", 1.0),
        required("norm_topk_prob", False, is_written=True),
        required("scoring_func", "softmax"),
        write_only("mlp_bias", False),
        implied(**{"experts.normed": False}),
    ),
    *for_members(
        "deepseek_v3",
        Setting("n_routed_experts", "experts.count", 64, alias="num_local_experts"),
        shared_experts(1),
        Setting("routed_scaling_factor", "experts.scale", 2.5),
        Setting("norm_topk_prob", "experts.normed", True),
        required("scoring_func", "sigmoid"),
        write_only("rope_interleave", True),
        write_only("num_nextn_predict_layers", 0),
        implied(**{"experts.score": "sigmoid", "experts.balance": True}),
    ),
)


def attention_rows(config: Config, prefix: str, hf_prefix: str) -> list[TensorRow]:
    bias = bool(config.bias)
    if config.latent.q_rank is None:
        table = linear(f"{prefix}.q", f"{hf_prefix}.q_proj", bias=False)
    else:
        table = linear(f"{prefix}.q.0", f"{hf_prefix}.q_a_proj", bias=bias)
        table += linear(f"{prefix}.q.1", f"{hf_prefix}.q_a_layernorm", bias=False)
        table += linear(f"{prefix}.q.2", f"{hf_prefix}.q_b_proj", bias=False)
    table += linear(f"{prefix}.compress", f"{hf_prefix}.kv_a_proj_with_mqa", bias=bias)
    table += linear(f"{prefix}.norm", f"{hf_prefix}.kv_a_layernorm", bias=False)
    table += linear(f"{prefix}.expand", f"{hf_prefix}.kv_b_proj", bias=False)
    return table + linear(f"{prefix}.out", f"{hf_prefix}.o_proj", bias=bias)


def expert_rows(config: Config, prefix: str, hf_prefix: str) -> list[TensorRow]:
    assert config.experts is not None
    table = mixtral.mixture_rows(config.experts.count, mixtral.QWEN_EXPERT, prefix, hf_prefix)
    for part, hf_part in mixtral.QWEN_EXPERT.items() if config.experts.shared is not None else ():
        table += linear(f"{prefix}.shared.{part}", f"{hf_prefix}.shared_experts.{hf_part}", bias=False)
    return (
        table + [TensorRow(f"{prefix}.balance", f"{hf_prefix}.gate.e_score_correction_bias")] * config.experts.balance
    )


def rows(config: Config) -> list[TensorRow]:
    return llama.decoder_rows(config, {"latent": ("self_attn", attention_rows)}, expert_rows=expert_rows)


DEEPSEEK = llama.llama_family(
    "DeepSeek",
    tuple(CLASSES),
    SUPPORTED,
    obstacles,
    SETTINGS,
    rows,
    # The layer after the last is a multi-token prediction head.
    ignored=llama.IGNORED + r"|^model\.layers\.{n_layer}\.",
    example=dict(experts=Experts(8, shared=344, hidden=344, normed=False)),
    member=member,
)
