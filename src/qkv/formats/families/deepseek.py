"""DeepSeek-V2 and V3: latent attention, and experts beside one that every token takes, after some layers without.

V2 scores experts by softmax, V3 each by itself, with a number added that only decides who is chosen. Both may let a token
choose from a few groups of experts. Where angles are stretched by YaRN, scores are scaled too.
"""

import math

from ...i18n import Message
from ...model.config import Config
from ...model.layer_pattern import layer_pattern
from ...model.mixture import Experts
from . import llama, mixtral
from .family import PLAIN, Family, TensorRow, linear, need
from .rotary_settings import read_rotary, rotary_table, write_rotary
from .setting_table import (
    ConfigReading,
    Form,
    HfConfig,
    Holds,
    Rule,
    Setting,
    Table,
    Value,
    always,
    insist,
    one_number,
    only,
    required,
    value_of,
    written,
)

CLASSES = {"deepseek_v2": "DeepseekV2ForCausalLM", "deepseek_v3": "DeepseekV3ForCausalLM"}
HOLDS: Holds = PLAIN | dict(
    kind=("decoder",),
    position=("rotary", "none"),
    norm=("rms",),
    norm_place=("pre",),
    feed_forward=tuple(llama.ACTIVATIONS),
    bias=(False, "qkv out"),
    mixer=("latent",),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    head=("linear",),
)
for free in ("experts", "attention_scale"):
    del HOLDS[free]


def member(config: Config) -> str:
    """Which of the two the model is, as transformers names it."""
    return "deepseek_v3" if config.experts is not None and config.experts.score == "sigmoid" else "deepseek_v2"


def obstacles(config: Config) -> list[Message]:
    """Experts after a number of layers without, of which some are shared, and a scale that YaRN explains."""
    how, third = config.experts, member(config) == "deepseek_v3"
    if how is None:
        return [need("experts={…}", None)]
    found = [] if how.balance == third else [need(f"experts.balance={third}", how.balance)]
    hidden = how.hidden or config.hidden_width
    if how.shared is None or how.shared % hidden:
        found.append(need(f"experts.shared = {hidden} × n", how.shared))
    if not third and how.normed:
        found.append(need("experts.normed=False", how.normed))
    if "dense" in config.thinkers[config.thinkers.index("experts") :]:
        found.append(need("experts.layers='dense×n experts×m'", repr(how.layers)))
    if config.width % config.n_head:
        found.append(need(Message("heads that divide the width"), f"n_head={config.n_head}"))
    if config.attention_scale is not None and (config.rotary.scaling or {}).get("kind") != "yarn":
        found.append(need("attention_scale=None", config.attention_scale))
    return found


def magnitude(factor: float, weight: float) -> float:
    """YaRN's correction of a stretch by a factor."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def check_heads(reading: ConfigReading) -> None:
    """Refuse heads that share keys."""
    one_number(reading.theirs, "num_attention_heads", "num_key_value_heads")


def read_angles(reading: ConfigReading) -> dict[str, Value]:
    """Return the angles, and the scale of scores, which follows from what a file says of YaRN's magnitudes."""
    theirs, scale, told = reading.theirs, None, rotary_table(reading.theirs)
    width = reading.ours["head_width"] + reading.ours["rope_width"]
    factor, all_dim, turned = told.get("factor"), told.pop("mscale_all_dim", 0), told.pop("mscale", 0)
    if told.get("rope_type", told.get("type", "default")) != "default" and factor:
        if all_dim and turned:
            told.setdefault("attention_factor", magnitude(factor, turned) / magnitude(factor, all_dim))
        if all_dim:
            scale = width**-0.5 * magnitude(factor, all_dim) ** 2
        theirs = theirs | {"rope_scaling": told, "rope_parameters": None}
    return dict(attention_scale=scale) | read_rotary(theirs)


def write_angles(config: Config) -> HfConfig:
    """Return both; the scale of scores is written as YaRN's magnitude."""
    theirs = write_rotary(config)
    if config.attention_scale is not None and config.rotary.scaling is not None:
        width = value_of(config, "head_width") + value_of(config, "rope_width")
        root = math.sqrt(config.attention_scale * math.sqrt(width))
        weight = 10 * (root - 1) / math.log(config.rotary.scaling["factor"])
        theirs |= {name: theirs[name] | {"mscale_all_dim": weight} for name in ("rope_scaling", "rope_parameters")}
    return theirs


def read_layers(reading: ConfigReading) -> dict[str, Value]:
    """Return which layers have experts: all after the first few."""
    count, usual = reading.ours["n_layer"], 3 if reading.member == "deepseek_v3" else 0
    dense = min(reading.theirs.get("first_k_dense_replace", usual) or 0, count)
    return {"experts.layers": layer_pattern(("dense",) * dense + ("experts",) * (count - dense))}


def write_layers(config: Config) -> HfConfig:
    """Return how many are before them."""
    return dict(first_k_dense_replace=config.thinkers.index("experts"))


def read_groups(reading: ConfigReading) -> dict[str, Value]:
    """Return the groups of experts that a token chooses from; V2 has none if it is greedy."""
    theirs, kept = reading.theirs, reading.theirs.get("topk_group")
    groups = {"experts.groups": theirs.get("n_group") or 1, "experts.groups_per_token": 1 if kept is None else kept}
    if reading.member == "deepseek_v3":
        insist(theirs, dict(topk_method="noaux_tc"))
        return groups
    if theirs.get("topk_method", "greedy") == "greedy":
        return {}
    insist(theirs, dict(topk_method="group_limited_greedy"))
    return groups


def write_groups(config: Config) -> HfConfig:
    """Return them, and how V2 calls that."""
    how = value_of(config, "experts")
    theirs = dict(n_group=how.groups, topk_group=how.groups_per_token)
    if member(config) == "deepseek_v3":
        return theirs
    return theirs | dict(topk_method="greedy" if how.groups == 1 else "group_limited_greedy")


def shared(usual: int) -> Setting:
    """Return the entry of the experts that every token takes, which are one as wide as all of them in ours."""
    form = Form(
        lambda count, reading: reading.ours["experts.hidden"] * (count or 0) or None,
        lambda width, config: (width or 0) // value_of(config, "experts.hidden"),
    )
    return Setting("n_shared_experts", "experts.shared", usual, form)


SETTINGS: Table = (
    written("architectures", lambda config: [CLASSES[member(config)]]),
    required("rope_interleave", True),
    required("mlp_bias", False),
    required("moe_layer_freq", 1),
    required("ep_size", 1),
    required("partial_rotary_factor", 1.0),
    Setting("vocab_size", "vocab"),
    Setting("hidden_size", "width"),
    Setting("intermediate_size", "hidden"),
    Setting("num_hidden_layers", "n_layer"),
    Setting("num_attention_heads", "n_head", also=("num_key_value_heads",)),
    Rule(check_heads),
    Setting("qk_nope_head_dim", "head_width"),
    Setting("qk_rope_head_dim", "rope_width", also=("head_dim",)),
    *only("deepseek_v3", required("head_dim", lambda reading: reading.ours["rope_width"])),
    Setting("v_head_dim", "value_width"),
    Setting("kv_lora_rank", "rank"),
    Setting("q_lora_rank", "q_rank", 1536),
    Setting("max_position_embeddings", "context"),
    Setting("rms_norm_eps", "norm_eps", 1e-6),
    llama.GATE,
    Rule(llama.read_bias, lambda config: dict(attention_bias=bool(config.bias))),
    Rule(read_angles, write_angles, dict(rotary_base="rope_theta")),
    Setting("attention_dropout", "dropout", 0.0, empty=True),
    Setting("tie_word_embeddings", "tied", False),
    Setting("num_experts_per_tok", "experts.per_token"),
    Setting("moe_intermediate_size", "experts.hidden"),
    Rule(read_layers, write_layers),
    Rule(read_groups, write_groups, {"experts.groups": "n_group", "experts.groups_per_token": "topk_group"}),
    *only(
        "deepseek_v2",
        Setting("n_routed_experts", "experts.count", 64, second="num_experts"),
        shared(2),
        Setting("routed_scaling_factor", "experts.scale", 1.0),
        required("norm_topk_prob", False, written=True),
        required("scoring_func", "softmax"),
        written("mlp_bias", False),
        always(**{"experts.normed": False}),
    ),
    *only(
        "deepseek_v3",
        Setting("n_routed_experts", "experts.count", 64, second="num_local_experts"),
        shared(1),
        Setting("routed_scaling_factor", "experts.scale", 2.5),
        Setting("norm_topk_prob", "experts.normed", True),
        required("scoring_func", "sigmoid"),
        written("rope_interleave", True),
        written("num_nextn_predict_layers", 0),
        always(**{"experts.score": "sigmoid", "experts.balance": True}),
    ),
)


def looks(config: Config, ours: str, theirs: str) -> list[TensorRow]:
    """The rows of one latent attention."""
    bias = bool(config.bias)
    if config.latent.q_rank is None:
        table = linear(f"{ours}.q", f"{theirs}.q_proj", bias=False)
    else:
        table = linear(f"{ours}.q.0", f"{theirs}.q_a_proj", bias=bias)
        table += linear(f"{ours}.q.1", f"{theirs}.q_a_layernorm", bias=False)
        table += linear(f"{ours}.q.2", f"{theirs}.q_b_proj", bias=False)
    table += linear(f"{ours}.compress", f"{theirs}.kv_a_proj_with_mqa", bias=bias)
    table += linear(f"{ours}.norm", f"{theirs}.kv_a_layernorm", bias=False)
    table += linear(f"{ours}.expand", f"{theirs}.kv_b_proj", bias=False)
    return table + linear(f"{ours}.out", f"{theirs}.o_proj", bias=bias)


def experts(config: Config, ours: str, theirs: str) -> list[TensorRow]:
    """The rows of one mixture."""
    assert config.experts is not None
    table = mixtral.mixture(config.experts.count, mixtral.PARTS, ours, theirs)
    for part, word in mixtral.PARTS.items() if config.experts.shared is not None else ():
        table += linear(f"{ours}.shared.{part}", f"{theirs}.shared_experts.{word}", bias=False)
    return table + [TensorRow(f"{ours}.balance", f"{theirs}.gate.e_score_correction_bias")] * config.experts.balance


def rows(config: Config) -> list[TensorRow]:
    """Where each tensor lies."""
    return llama.stack(config, {"latent": ("self_attn", looks)}, experts=experts)


DEEPSEEK = Family(
    "DeepSeek",
    tuple(CLASSES),
    HOLDS,
    obstacles,
    SETTINGS,
    rows,
    # The layer after the last is a further head that guesses a second token.
    ignored=llama.IGNORED + r"|^model\.layers\.{n_layer}\.",
    prefix="model.",
    head=llama.HEAD,
    repeats=llama.REPEATS,
    example=dict(experts=Experts(8, shared=344, hidden=344, normed=False)),
    member=member,
)
