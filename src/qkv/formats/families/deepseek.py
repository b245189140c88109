"""DeepSeek-V2 and V3: latent attention, and experts beside one that every token takes, after some layers without.

V2 scores experts by softmax, V3 each by itself, with a number added that only decides who is chosen. Both may let a token
choose from a few groups of experts. Where angles are stretched by YaRN, scores are scaled too.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from ...i18n import Message
from ...model.config import Config
from ...model.layer_pattern import layer_pattern
from ...model.mixture import Experts
from . import llama, mixtral
from .family import PLAIN, Family, Row, insist, linear, need, one_number, word_of

CLASSES = {"deepseek_v2": "DeepseekV2ForCausalLM", "deepseek_v3": "DeepseekV3ForCausalLM"}
HOLDS: dict[str, tuple[Any, ...]] = PLAIN | dict(
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
    if config.attention_scale is not None and (config.rotary_scaling or {}).get("kind") != "yarn":
        found.append(need("attention_scale=None", config.attention_scale))
    return found


def magnitude(factor: float, weight: float) -> float:
    """YaRN's correction of a stretch by a factor."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def write(config: Config) -> dict[str, Any]:
    """config.json."""
    kind, how = member(config), config.experts
    assert how is not None
    plain, rope, values = sizes(config)
    theirs = dict(model_type=kind, architectures=[CLASSES[kind]]) | llama.write_sizes(config)
    hidden = how.hidden or config.hidden_width
    theirs |= llama.write_rotary(config) | dict(
        head_dim=rope,
        num_key_value_heads=config.n_head,
        attention_bias=bool(config.bias),
        kv_lora_rank=rank(config),
        q_lora_rank=config.q_rank,
        qk_nope_head_dim=plain,
        qk_rope_head_dim=rope,
        v_head_dim=values,
        n_routed_experts=how.count,
        num_experts_per_tok=how.per_token,
        moe_intermediate_size=hidden,
        n_shared_experts=(how.shared or 0) // hidden,
        first_k_dense_replace=config.thinkers.index("experts"),
        routed_scaling_factor=how.scale,
        norm_topk_prob=how.normed,
        n_group=how.groups,
        topk_group=how.groups_per_token,
    )
    if kind == "deepseek_v2":
        theirs |= dict(topk_method="greedy" if how.groups == 1 else "group_limited_greedy", mlp_bias=False)
    else:
        theirs |= dict(num_nextn_predict_layers=0, rope_interleave=True)
    if config.attention_scale is not None and config.rotary_scaling is not None:
        root = math.sqrt(config.attention_scale * math.sqrt(plain + rope))
        weight = 10 * (root - 1) / math.log(config.rotary_scaling["factor"])
        for table in ("rope_scaling", "rope_parameters"):
            theirs[table] = theirs[table] | {"mscale_all_dim": weight}
    return theirs


def sizes(config: Config) -> tuple[int, int, int]:
    """Of a head: what is not turned, what is, and its values."""
    plain = config.head_width or config.width // config.n_head
    return plain, config.rope_width or max(plain // 2 // 2 * 2, 2), config.value_width or plain


def rank(config: Config) -> int:
    """Of the latent."""
    return config.rank or max(config.width // 4, 8)


def read(theirs: dict[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """The other way."""
    insist(theirs, dict(rope_interleave=True, mlp_bias=False, moe_layer_freq=1, ep_size=1))
    width, n_head, plain = theirs["hidden_size"], theirs["num_attention_heads"], theirs["qk_nope_head_dim"]
    one_number(theirs, "num_attention_heads", "num_key_value_heads", n_head)
    rope, values = theirs["qk_rope_head_dim"], theirs["v_head_dim"]
    insist(
        theirs, dict(partial_rotary_factor=1.0) | (dict(head_dim=rope) if theirs["model_type"] == "deepseek_v3" else {})
    )
    theirs, scale = read_scale(theirs, plain + rope)
    base, scaling = llama.read_rotary(theirs)
    return Config(
        kind="decoder",
        vocab=theirs["vocab_size"],
        width=width,
        n_layer=theirs["num_hidden_layers"],
        n_head=n_head,
        head_width=None if plain * n_head == width else plain,
        rope_width=rope,
        value_width=None if values == plain else values,
        rank=theirs["kv_lora_rank"],
        q_rank=theirs.get("q_lora_rank", 1536),
        hidden=theirs["intermediate_size"],
        context=theirs["max_position_embeddings"],
        norm_eps=theirs.get("rms_norm_eps", 1e-6),
        feed_forward=word_of(theirs.get("hidden_act", "silu"), llama.ACTIVATIONS),
        bias=llama.read_bias(theirs.get("attention_bias", False), False),
        mixer="latent",
        attention_scale=scale,
        rotary_base=base,
        rotary_scaling=scaling,
        experts=read_experts(theirs),
        tied=theirs.get("tie_word_embeddings", False),
        dropout=theirs.get("attention_dropout") or 0.0,
    )


def read_scale(theirs: dict[str, Any], width: int) -> tuple[dict[str, Any], float | None]:
    """The file without what it says of YaRN's magnitudes beyond one factor, and the scale of scores that it means."""
    told = llama.rotary_table(theirs)
    factor, all_dim, turned = told.get("factor"), told.pop("mscale_all_dim", 0), told.pop("mscale", 0)
    if told.get("rope_type", told.get("type", "default")) == "default" or not factor:
        return theirs, None
    if all_dim and turned:
        told.setdefault("attention_factor", magnitude(factor, turned) / magnitude(factor, all_dim))
    scale = width**-0.5 * magnitude(factor, all_dim) ** 2 if all_dim else None
    return theirs | {"rope_scaling": told, "rope_parameters": None}, scale


def read_experts(theirs: dict[str, Any]) -> Experts:
    """How tokens are routed."""
    third, hidden = theirs["model_type"] == "deepseek_v3", theirs["moe_intermediate_size"]
    count = one_number(theirs, "n_routed_experts", "num_local_experts" if third else "num_experts", 64)
    dense = min(theirs.get("first_k_dense_replace", 3 if third else 0) or 0, theirs["num_hidden_layers"])
    words = ("dense",) * dense + ("experts",) * (theirs["num_hidden_layers"] - dense)
    how = Experts(
        count,
        theirs["num_experts_per_tok"],
        hidden=hidden,
        shared=hidden * (theirs.get("n_shared_experts", 1 if third else 2) or 0) or None,
        layers=layer_pattern(words),
        normed=False,
        scale=theirs.get("routed_scaling_factor", 2.5 if third else 1.0),
    )
    kept = theirs.get("topk_group")
    groups: dict[str, Any] = dict(groups=theirs.get("n_group") or 1, groups_per_token=1 if kept is None else kept)
    if third:
        insist(theirs, dict(topk_method="noaux_tc", scoring_func="sigmoid"))
        return replace(how, score="sigmoid", balance=True, normed=theirs.get("norm_topk_prob", True), **groups)
    insist(theirs, dict(norm_topk_prob=False, scoring_func="softmax"))
    if theirs.get("topk_method", "greedy") == "greedy":
        return how
    insist(theirs, dict(topk_method="group_limited_greedy"))
    return replace(how, **groups)


def looks(config: Config, ours: str, theirs: str) -> list[Row]:
    """The rows of one latent attention."""
    bias = bool(config.bias)
    if config.q_rank is None:
        table = linear(f"{ours}.q", f"{theirs}.q_proj", bias=False)
    else:
        table = linear(f"{ours}.q.0", f"{theirs}.q_a_proj", bias=bias)
        table += linear(f"{ours}.q.1", f"{theirs}.q_a_layernorm", bias=False)
        table += linear(f"{ours}.q.2", f"{theirs}.q_b_proj", bias=False)
    table += linear(f"{ours}.compress", f"{theirs}.kv_a_proj_with_mqa", bias=bias)
    table += linear(f"{ours}.norm", f"{theirs}.kv_a_layernorm", bias=False)
    table += linear(f"{ours}.expand", f"{theirs}.kv_b_proj", bias=False)
    return table + linear(f"{ours}.out", f"{theirs}.o_proj", bias=bias)


def experts(config: Config, ours: str, theirs: str) -> list[Row]:
    """The rows of one mixture."""
    assert config.experts is not None
    table = mixtral.mixture(config.experts.count, mixtral.PARTS, ours, theirs)
    for part, word in mixtral.PARTS.items() if config.experts.shared is not None else ():
        table += linear(f"{ours}.shared.{part}", f"{theirs}.shared_experts.{word}", bias=False)
    return table + [Row(f"{ours}.balance", f"{theirs}.gate.e_score_correction_bias")] * config.experts.balance


def rows(config: Config) -> list[Row]:
    """Where each tensor lies."""
    return llama.stack(config, {"latent": ("self_attn", looks)}, experts=experts)


DEEPSEEK = Family(
    "DeepSeek",
    tuple(CLASSES),
    HOLDS,
    obstacles,
    write,
    read,
    rows,
    # The layer after the last is a further head that guesses a second token.
    ignored=llama.IGNORED + r"|^model\.layers\.{n_layer}\.",
    prefix="model.",
    head=llama.HEAD,
    repeats=llama.REPEATS,
    example=dict(experts=Experts(8, shared=344, hidden=344, normed=False)),
)
