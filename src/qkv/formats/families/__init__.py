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
    in_the_way,
    in_their_words,
    rename_to_ours,
    rename_to_theirs,
    respelled,
    settled,
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
from .setting_table import Foreign, HfConfig, insist
from .t5 import T5

FAMILIES: tuple[Family, ...] = (
    LLAMA,
    MIXTRAL,
    DEEPSEEK,
    GEMMA,
    PHI3,
    GPT2,
    GPT_NEOX,
    OPT,
    BERT,
    ROBERTA,
    T5,
    BART,
    MAMBA2,
    BAMBA,
    QWEN3_NEXT,
)


def family_of(config: Config) -> Family:
    """The layout that holds such a model; where none does, an error names the nearest and what it would need."""
    same_kind = [family for family in FAMILIES if config.kind in family.holds["kind"]]
    mixed = config.experts is not None
    nearest_first = sorted(same_kind, key=lambda family: ("experts" in family.example) != mixed)
    family = min(nearest_first, key=lambda family: len(in_the_way(family, config)))
    if needs := in_the_way(family, config):
        told = Listed(needs, _("; "))
        raise Foreign(
            "no published layout holds this model. The nearest is {family}, which would need {needs}: train it "
            "with these settings to export it",
            family=family.name,
            needs=told,
        )
    return family


def to_theirs(config: Config, state: State, family: Family | None = None) -> tuple[HfConfig, State]:
    """config.json and tensors as the family has them; `state` is `dict(model.named_parameters())`."""
    family = family_of(config) if family is None else family
    return family.write(config), rename_to_theirs(family, config, state)


def to_ours(theirs: HfConfig, tensors: Mapping[str, Tensor]) -> tuple[Config, State]:
    """Config and state dict of ours from a family's config.json and tensors."""
    family = _find_family(theirs)
    tensors = respelled(family, tensors)
    config, tensors = settled(family, read_config(theirs, tensors), tensors)
    return config, rename_to_ours(family, config, tensors)


def read_config(theirs: HfConfig, tensors: Mapping[str, Tensor]) -> Config:
    """Return the Config that a family's config.json describes. `tensors` are named as the whole model names them.

    What can't be read is refused in the words of that config.json.
    """
    family, word = _find_family(theirs), theirs["model_type"]
    _refuse_two_counts(theirs)
    if len(kinds := family.holds["kind"]) == 1 and kinds[0] != "encoder-decoder":
        insist(theirs, dict(is_causal=kinds[0] == "decoder"))  # transformers obeys it in every family
    try:
        return family.read(theirs, tensors)
    except KeyError as missing:
        raise Foreign(
            "this config.json says nothing of {name}, which a {word} needs", name=str(missing), word=word
        ) from None
    except Foreign:
        raise
    except Problem as problem:
        raise in_their_words(problem, theirs, family.names(word)) from None


def _find_family(theirs: HfConfig) -> Family:
    """Return the family that this config.json names, or raise an error that names those that there are."""
    word = str(theirs.get("model_type"))
    known = {name: family for family in FAMILIES for name in family.types}
    if word in known:
        return known[word]
    if nearest(word, known):
        raise unknown("model_type", word, known)
    raise Foreign(
        "model_type {word!r} is not one of {known}; the nearest in its settings is {nearest!r}, but it is not the same",
        word=word,
        known=all_of(known),
        nearest=_nearest(theirs).types[0],
    )


def _refuse_two_counts(theirs: HfConfig) -> None:
    """transformers knows each family's number of heads by a second name too; no tensor's shape tells which is meant."""
    second = "num_attention_heads"
    for first in ("n_head", "num_heads", "encoder_attention_heads"):
        if first in theirs and (b := theirs.get(second, theirs[first])) != theirs[first]:
            raise Foreign(
                "{first} and {second} differ in this config.json ({a} and {b}): qkv reads models in which they are "
                "one number",
                first=first,
                second=second,
                a=theirs[first],
                b=b,
            )


def _nearest(theirs: HfConfig) -> Family:
    """Of the families of its kind, the one whose config.json has most in common with this one, for what both say."""
    classes = "".join(map(str, theirs.get("architectures") or []))
    kind = "encoder" if "MaskedLM" in classes else "decoder" if "CausalLM" in classes else None
    kind = "encoder-decoder" if theirs.get("is_encoder_decoder") else kind
    same = [family for family in FAMILIES if kind in (None, *family.holds["kind"])]
    mixed = any("experts" in name for name in theirs)
    same = [family for family in same if ("experts" in family.example) == mixed] or same

    def shared(family: Family) -> float:
        names = set(family.write(Config(**{name: values[0] for name, values in family.holds.items()} | family.example)))
        return len(names & set(theirs)) / (len(names) + len(theirs))

    return max(same, key=shared)
