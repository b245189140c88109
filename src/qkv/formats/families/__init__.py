"""Published layouts, each a name table with a config reader and writer: one file per family.

Read in this order: `setting_table`, `rotary_settings`, `family`, `llama`, `mixtral`, `gemma`, `phi3`, `deepseek`, `qwen3_next`, `mamba2`, `bamba`, `gpt2`,
`gpt_neox`, `opt`, `bert`, `t5`, `bart`.
"""

from collections.abc import Mapping

from torch import Tensor

from ...i18n import Listed, Problem, _, all_of, nearest, unknown
from ...model.config import Config
from .bamba import BAMBA
from .bart import BART
from .bert import BERT, ROBERTA
from .deepseek import DEEPSEEK
from .family import (
    Family,
    State,
    find_obstacles,
    normalise_names,
    rename_from_hf,
    rename_to_hf,
    resolve_repeats,
    use_config_names,
)
from .gemma import GEMMA
from .gpt2 import GPT2
from .gpt_neox import GPT_NEOX
from .llama import LLAMA
from .mamba2 import MAMBA2
from .mixtral import MIXTRAL
from .opt import OPT
from .phi3 import PHI3
from .qwen3_next import QWEN3_NEXT
from .setting_table import HfConfig, Unsupported, agreed_value, require
from .t5 import T5

FAMILIES: tuple[Family, ...] = (
    *(LLAMA, MIXTRAL, DEEPSEEK, GEMMA, PHI3, GPT2, GPT_NEOX, OPT),
    *(BERT, ROBERTA, T5, BART, MAMBA2, BAMBA, QWEN3_NEXT),
)


def family_of(config: Config) -> Family:
    """Return the layout that fits a config. If none does, raise an error with the nearest and what it would need."""
    candidates = [family for family in FAMILIES if config.kind in family.supported["kind"]]
    has_experts = config.experts is not None
    nearest_first = sorted(candidates, key=lambda family: ("experts" in family.example) != has_experts)
    family = min(nearest_first, key=lambda family: len(find_obstacles(family, config)))
    if needs := find_obstacles(family, config):
        raise Unsupported(
            "no published layout holds this model. The nearest is {family}, which would need {needs}: train it "
            "with these settings to export it",
            family=family.name,
            needs=Listed(needs, _("; ")),
        )
    return family


def to_hf(config: Config, state: State, family: Family | None = None) -> tuple[HfConfig, State]:
    """Return config.json and tensors in the family's layout; `state` is `dict(model.named_parameters())`."""
    family = family_of(config) if family is None else family
    return family.write(config), rename_to_hf(family, config, state)


def from_hf(hf_config: HfConfig, tensors: Mapping[str, Tensor]) -> tuple[Config, State]:
    """Return the Config and state dict of a Hugging Face config.json and its tensors."""
    family = _find_family(hf_config)
    tensors = normalise_names(family, tensors)
    config, tensors = resolve_repeats(family, read_config(hf_config, tensors), tensors)
    return config, rename_from_hf(family, config, tensors)


def read_config(hf_config: HfConfig, tensors: Mapping[str, Tensor]) -> Config:
    """Return the Config that a config.json describes. Of the tensors, only the names matter, as the whole model has
    them.

    Errors name the settings as that config.json does.
    """
    family, model_type = _find_family(hf_config), hf_config["model_type"]
    _refuse_conflicting_counts(hf_config)
    if len(kinds := family.supported["kind"]) == 1 and kinds[0] != "encoder-decoder":
        require(hf_config, dict(is_causal=kinds[0] == "decoder"))  # transformers obeys it in every family
    try:
        return family.read(hf_config, tensors)
    except KeyError as missing:
        raise Unsupported(
            "this config.json lacks {name}, which a {word} needs", name=str(missing), word=model_type
        ) from None
    except Unsupported:
        raise
    except Problem as problem:
        raise use_config_names(problem, hf_config, family.names(model_type)) from None


def _find_family(hf_config: HfConfig) -> Family:
    """Return the family of this config.json, or raise an error that lists the supported ones."""
    model_type = str(hf_config.get("model_type"))
    families = {name: family for family in FAMILIES for name in family.types}
    if model_type in families:
        return families[model_type]
    if nearest(model_type, families):
        raise unknown("model_type", model_type, families)
    raise Unsupported(
        "model_type {word!r} is not one of {known}; the nearest in its settings is {nearest!r}, but it is not the same",
        word=model_type,
        known=all_of(families),
        nearest=_nearest_family(hf_config).types[0],
    )


def _refuse_conflicting_counts(hf_config: HfConfig) -> None:
    """Raise an error if the two names that transformers has for the number of heads disagree."""
    for name in ("n_head", "num_heads", "encoder_attention_heads"):
        if name in hf_config:
            agreed_value(hf_config, name, "num_attention_heads")


def _nearest_family(hf_config: HfConfig) -> Family:
    """Return the family of the same kind whose config.json shares most settings with this one."""
    classes = "".join(map(str, hf_config.get("architectures") or []))
    kind = "encoder" if "MaskedLM" in classes else "decoder" if "CausalLM" in classes else None
    kind = "encoder-decoder" if hf_config.get("is_encoder_decoder") else kind
    candidates = [family for family in FAMILIES if kind in (None, *family.supported["kind"])]
    has_experts = any("experts" in name for name in hf_config)
    candidates = [family for family in candidates if ("experts" in family.example) == has_experts] or candidates

    def overlap(family: Family) -> float:
        names = set(
            family.write(Config(**{name: values[0] for name, values in family.supported.items()} | family.example))
        )
        return len(names & set(hf_config)) / (len(names) + len(hf_config))

    return max(candidates, key=overlap)
