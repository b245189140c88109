"""What a family is: where each of our tensors lies in a published layout, and how its config.json reads.

A family is a table, not code: `Row("decoder.0.attention.q.weight", "model.layers.0.self_attn.q_proj.weight")` says it
in both directions. A row may stack several of our tensors into one of theirs (GPT-2's q, k and v), or weave them head by
head (Qwen3-Next's queries and gates), may transpose (GPT-2 keeps its matrices the other way round) and may have lines before
ours that are never used (BART's positions begin at line 2). Every row must be there: a tensor too few or too many is an error.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ...i18n import Listed, Message, Notice, Problem, _, all_of, one_of
from ...mixers.hf_weights import unwoven, woven
from ...model.config import Config
from .setting_table import HfConfig, Pairs, Supported, Table, Unsupported, Value, entries_of, read_table, write_table

State = dict[str, Tensor]


MISMATCHES = {
    "extra": _("these weights are no {family} that qkv knows: there is also {names}"),
    "missing": _("these weights are no whole {family}: missing {names}"),
    "place": _("a {family} layout has no place for {names}"),
}


@dataclass(frozen=True)
class TensorRow:
    """One tensor of theirs, and the one of ours that it is, or those that it stacks along the outputs."""

    names: str | tuple[str, ...]
    hf_name: str
    transposed: bool = False
    unused: int = 0  # lines of theirs that come before ours and stand for nothing
    unit_axis: int | None = None  # an axis of length 1 that theirs has and ours hasn't
    groups: int = 1  # where theirs goes group by group: so many,
    sizes: tuple[int, ...] = ()  # each with so many lines of each part; one that is named twice has two such pieces

    @property
    def parts(self) -> tuple[str, ...]:
        """Our names."""
        return (self.names,) if isinstance(self.names, str) else self.names

    def write(self, parts: list[Tensor]) -> Tensor:
        """Theirs of ours."""
        tensor = woven(self._split_parts(parts), self.groups) if self.sizes else torch.cat(parts)
        if self.unused:
            tensor = torch.cat([tensor.new_zeros(self.unused, *tensor.shape[1:]), tensor])
        tensor = tensor if self.unit_axis is None else tensor.unsqueeze(self.unit_axis)
        return (tensor.T if self.transposed else tensor).contiguous()

    def read(self, tensor: Tensor) -> State:
        """Ours of theirs."""
        tensor = tensor.T if self.transposed else tensor
        tensor = tensor if self.unit_axis is None else tensor.squeeze(self.unit_axis)
        if not self.sizes:
            return dict(zip(self.parts, tensor[self.unused :].chunk(len(self.parts)), strict=True))
        pieces = list(zip(self.parts, unwoven(tensor, self.groups, self.sizes), strict=True))
        return {name: torch.cat([piece for part, piece in pieces if part == name]) for name in self.parts}

    def _split_parts(self, parts: list[Tensor]) -> list[Tensor]:
        """What theirs weaves: a part that is named twice is cut into its two pieces."""
        rows = {
            name: [self.groups * size for part, size in zip(self.parts, self.sizes, strict=True) if part == name]
            for name in self.parts
        }
        cut = {name: iter(part.split(rows[name])) for name, part in zip(self.parts, parts, strict=True)}
        return [next(cut[name]) for name in self.parts]


@dataclass(frozen=True)
class Family:
    """A published layout: what it can hold, its config reader and writer, its table of names."""

    name: str  # as people call it
    types: tuple[str, ...]  # the words that transformers has for it, `model_type`
    supported: Supported
    obstacles: Callable[[Config], list[Message]]  # what more than one setting decides: "n_kv_head=4 (here 2)"
    settings: Table
    rows: Callable[[Config], list[TensorRow]]
    fill: Callable[[Config, State], State] = lambda config, state: state  # 0 where the layout has more than we do
    ignored: str = (
        "$^"  # a pattern: tensors in published files that hold nothing learned, or nothing of ours; {n_layer}
    )
    prefix: str = ""  # of all names but the head's; a file of the bare model leaves it out
    head: str = "$^"  # a pattern: the names that have no prefix
    repeats: dict[str, str] = field(default_factory=dict)  # tensors that files may hold once more -> which they are
    example: dict[str, Value] = field(default_factory=dict)  # settings without which no model has this layout
    member: Callable[[Config], str] | None = None  # which of `types` a model is; None: the first

    def read(self, hf_config: HfConfig, tensors: Mapping[str, Tensor]) -> Config:
        """Return what a config.json means; of the tensors only the names matter, but for Marian's positions."""
        return read_table(self.settings, hf_config, tensors, self.supported)

    def write(self, config: Config) -> HfConfig:
        """Return a config.json that says the same."""
        return write_table(self.settings, config, self.member(config) if self.member else self.types[0])

    def names(self, member: str) -> Pairs:
        """Yield what a member's config.json calls each setting of ours."""
        return (pair for entry in entries_of(self.settings, member) for pair in entry.names())


# What a layout has only if it says so.
PLAIN: Supported = dict(
    experts=(None,),
    parallel=(False,),
    softcap=(None,),
    output_softcap=(None,),
    embedding_width=(None,),
    source_vocab=(None,),
    depth_scale=(False,),
    window_base=(None,),
    attention_scale=(None,),
    attention_gate=(False,),
    rotary_fraction=(1.0,),
    head_bias=(False,),
    output_scale=(1.0,),
    pooler=(False,),
)


def linear(prefix: str | Sequence[str], hf_prefix: str, *, bias: bool, transposed: bool = False) -> list[TensorRow]:
    """The rows of a layer with a weight and perhaps a bias."""
    parts = (prefix,) if isinstance(prefix, str) else prefix
    rows = [TensorRow(tuple(f"{part}.weight" for part in parts), f"{hf_prefix}.weight", transposed)]
    return rows + [TensorRow(tuple(f"{part}.bias" for part in parts), f"{hf_prefix}.bias")] * bias


def find_obstacles(family: Family, config: Config) -> list[Message]:
    """Each setting that the layout can't express, with what it could: empty if the model fits."""
    obstacles = []
    for name, values in family.supported.items():
        if getattr(config, name) not in values:
            obstacles.append(need(one_of(f"{name}={value!r}" for value in values), repr(getattr(config, name))))
    return obstacles + family.obstacles(config)


def need(needed: str | Message | Listed, *actual: object) -> Message:
    """What a layout would need, and what is there."""
    return Message("{wanted} (here {here})", wanted=needed, here=Listed(actual, _(" and ")))


def shared_head_obstacles(config: Config) -> list[Message]:
    """The obstacle of a layout whose heads share nothing."""
    shares = config.n_kv_head not in (None, config.n_head)
    return [need(f"n_kv_head={config.n_head}", config.n_kv_head)] if shares else []


def head_obstacles(config: Config) -> list[Message]:
    """The obstacles of a layout whose heads share nothing and divide the width."""
    return shared_head_obstacles(config) + width_obstacles(config)


def width_obstacles(config: Config) -> list[Message]:
    """The obstacle of a layout whose heads divide the width."""
    obstacles = []
    if config.head_width is not None and config.head_width * config.n_head != config.width:
        obstacles.append(need("head_width × n_head = width", f"{config.head_width} × {config.n_head}", config.width))
    return obstacles


def zero_biases(state: State) -> State:
    """A bias of 0 for each matrix of the blocks that has none: the same function, for layouts that always have one."""
    inside = re.compile(r"(.*\.(?:attention|cross|feed_forward)\.\w+)\.weight")
    matrices = {match[1]: weight for name, weight in state.items() if (match := inside.fullmatch(name))}
    return {f"{name}.bias": weight.new_zeros(len(weight)) for name, weight in matrices.items()} | state


def rename_to_hf(family: Family, config: Config, state: State) -> State:
    """Our tensors under their names."""
    state, hf_tensors = family.fill(config, state), {}
    rows = family.rows(config)
    _refuse_names("place", family, set(state) - {part for row in rows for part in row.parts})
    for row in rows:
        name = row.hf_name.removeprefix(family.prefix) if config.output.head == "none" else row.hf_name
        hf_tensors[name] = row.write([state[part] for part in row.parts])
    return hf_tensors


def rename_from_hf(family: Family, config: Config, tensors: Mapping[str, Tensor]) -> State:
    """Their tensors under our names, as `Transformer(config).load_state_dict` takes them."""
    rows = family.rows(config)
    hf_names = {row.hf_name for row in rows}
    _refuse_names("missing", family, hf_names - set(tensors))
    ignored = family.ignored.replace("{n_layer}", str(config.n_layer))
    _refuse_names("extra", family, {name for name in set(tensors) - hf_names if not re.search(ignored, name)})
    state: State = {}
    for row in rows:
        tensor = tensors[row.hf_name]
        try:
            state |= row.read(tensor)
        except (RuntimeError, IndexError):
            raise Unsupported(
                "{name} is {shape}, which does not fit the sizes in this config.json: it is another model's, or damaged",
                name=row.hf_name,
                shape=tuple(tensor.shape),
            ) from None
    if config.embedding.tied and config.says_words:
        state["head.weight"] = state["embedding.weight"]
    for side, layers in zip(("encoder", "decoder"), config.layers, strict=True):
        table = f"{side}.0.attention.position.table"  # one for all layers of a side
        state |= {f"{side}.{i}.attention.position.table": state[table] for i in range(layers) if table in state}
    return state


class RenamedTensors(Mapping[str, Tensor]):
    """The same tensors under other names, none of them touched before it is asked for."""

    def __init__(self, tensors: Mapping[str, Tensor], names: dict[str, str]) -> None:
        self.tensors, self.names = tensors, names

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[self.names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def normalise_names(family: Family, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Names as the whole model has them, where a file is of the bare one, or as old as BERT and says gamma and beta."""
    bare = not any(name.startswith(family.prefix) for name in tensors)
    names = {}
    for name in tensors:
        new = re.sub(r"(LayerNorm\.)beta$", r"\1bias", re.sub(r"(LayerNorm\.)gamma$", r"\1weight", name))
        names[family.prefix + new if bare and not re.search(family.head, new) else new] = name
    return RenamedTensors(tensors, names)


def resolve_repeats(
    family: Family, config: Config, tensors: Mapping[str, Tensor]
) -> tuple[Config, Mapping[str, Tensor]]:
    """What a file repeats is looked at, not dropped: where it is another tensor, the file's is used and that is said.

    So does transformers. A copy also stands in for what it copies, where a file kept only that.
    """
    sources, repeats = {name: name for name in tensors}, family.repeats
    if (
        config.source_vocab is not None
    ):  # nothing is repeated; but files of transformers 4 keep both sides' words as one
        for copy, source in repeats.items():
            if source in sources and copy.endswith(".embed_tokens.weight"):
                sources.setdefault(copy, source)
        return config, RenamedTensors(tensors, sources)
    side_copies = [copy for copy in repeats if copy.endswith(".embed_tokens.weight")]  # what each side reads
    for copy, source in repeats.items():
        if copy in sources:
            sources.setdefault(source, copy)
        elif source in sources and copy.endswith(".bias"):  # a head that comes apart has a bias too
            sources[copy] = source

    def differ(a: str, b: str) -> bool:
        return sources[a] != sources[b] and not torch.equal(tensors[sources[a]], tensors[sources[b]])

    # A head of its own is what an untied config.json promises.
    copies = [copy for copy in repeats if copy in sources and (config.embedding.tied or copy in side_copies)]
    differing = [copy for copy in copies if differ(copy, repeats[copy])]
    if not differing:
        return config, RenamedTensors(tensors, sources)
    pairs = [f"{copy} ≠ {repeats[copy]}" for copy in differing]
    head = next(copy for copy in repeats if copy.endswith(("head.weight", "decoder.weight", "embed_out.weight")))
    if set(differing) & set(side_copies):
        first, second = (copy if copy in differing else repeats[copy] for copy in side_copies)
        if differ(first, second):
            raise Unsupported(
                "the encoder and the decoder of this {family} read different word vectors ({names}): qkv reads models "
                "whose sides share them",
                family=family.name,
                names=all_of([first, second]),
            )
        sources = {head: sources[repeats[head]], **sources, repeats[first]: sources[first]}
        differing.append(head)
    sources |= {repeats[copy]: sources[copy] for copy in differing if copy.endswith(".bias")}
    warnings.warn(
        Notice(
            "config.json says that these tensors are one, but the file holds two that differ ({names}): the model "
            "is built with both, as the file has them. If the file was changed or mixed with another's, get it "
            "again",
            names=all_of(pairs),
        ),
        stacklevel=4,
    )
    return config.replace(tied=config.embedding.tied and head not in differing), RenamedTensors(tensors, sources)


# Settings that a message calls by our name: it is a common word, or theirs says it in another way.
OWN_NAMES = ("dropout", "bias", "parallel", "feed_forward", "depth_scale", "norm_place", "embedding_scale")


def use_config_names(problem: Problem, hf_config: HfConfig, names: Pairs) -> Problem:
    """Return what is wrong with a setting of ours, by the name that the config.json has for it."""
    present = set(hf_config).union(*(value for value in hf_config.values() if isinstance(value, dict)))
    hf_names: dict[str, str] = {}
    for setting, hf_name in names:
        if hf_name in present and setting not in hf_config and setting not in OWN_NAMES:
            hf_names.setdefault(setting, hf_name)
    renamed = {key: hf_names[name] for key in ("name", "what") if (name := problem.values.get(key)) in hf_names}
    problem = Problem(problem.sentence, problem.values | renamed)
    mentioned = [setting for setting in hf_names if re.search(rf"\b{re.escape(setting)}\b", problem.sentence)]
    if not mentioned:
        return problem
    pairs = all_of(f"{setting} = {hf_names[setting]}" for setting in mentioned)
    return Problem("{problem} (in the words of this config.json: {names})", problem=problem, names=pairs)


def _refuse_names(kind: str, family: Family, names: Iterable[str]) -> None:
    if names := sorted(names):
        first, more = all_of(names[:5]), len(names) - 5
        text = first if more <= 0 else Message("{few} and {more} more", few=first, more=more)
        raise Unsupported(MISMATCHES[kind], family=family.name, names=text)
