"""A family of published models: the table of tensor names and the settings of its config.json.

A family is a table: `TensorRow("decoder.0.attention.q.weight", "model.layers.0.self_attn.q_proj.weight")` maps our tensor
to the published one and back. A row may stack several of our tensors (GPT-2's q, k and v) or interleave them by head (Qwen3-Next's
queries and gates), transpose (GPT-2), and skip unused rows (BART's positions start at row 2). Missing and extra tensors
are errors.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from ...i18n import Listed, Message, Notice, Problem, _, all_of, one_of
from ...mixers.hf_weights import interleave_groups, split_groups
from ...model.config import Config
from ..tensor_files import LazyTensors
from .setting_table import HfConfig, Pairs, Supported, Table, Unsupported, Value, entries_of, read_table, write_table

State = dict[str, Tensor]


MISMATCHES = {
    "extra": _("these weights are not a {family} that qkv knows: there is also {names}"),
    "missing": _("these weights are not a complete {family}: missing {names}"),
    "place": _("a {family} layout does not have {names}"),
}


@dataclass(frozen=True)
class TensorRow:
    """One tensor of a published layout, and our tensor or those that it stacks along the outputs."""

    names: str | tuple[str, ...]
    hf_name: str
    transposed: bool = False
    unused: int = 0  # unused rows before ours
    unit_axis: int | None = None  # an axis of length 1 that only theirs has
    groups: int = 1  # number of groups that theirs interleaves,
    sizes: tuple[int, ...] = ()  # and the rows of each part in a group; a part named twice has two pieces

    @property
    def parts(self) -> tuple[str, ...]:
        """Our names."""
        return (self.names,) if isinstance(self.names, str) else self.names

    def write(self, parts: list[Tensor]) -> Tensor:
        """Return their tensor from ours."""
        tensor = interleave_groups(self._split_parts(parts), self.groups) if self.sizes else torch.cat(parts)
        if self.unused:
            tensor = torch.cat([tensor.new_zeros(self.unused, *tensor.shape[1:]), tensor])
        tensor = tensor if self.unit_axis is None else tensor.unsqueeze(self.unit_axis)
        return (tensor.T if self.transposed else tensor).contiguous()

    def read(self, tensor: Tensor) -> State:
        """Return our tensors from theirs."""
        tensor = tensor.T if self.transposed else tensor
        tensor = tensor if self.unit_axis is None else tensor.squeeze(self.unit_axis)
        if not self.sizes:
            return dict(zip(self.parts, tensor[self.unused :].chunk(len(self.parts)), strict=True))
        pieces = list(zip(self.parts, split_groups(tensor, self.groups, self.sizes), strict=True))
        return {name: torch.cat([piece for part, piece in pieces if part == name]) for name in self.parts}

    def _split_parts(self, parts: list[Tensor]) -> list[Tensor]:
        """Split each part into its pieces: a part that is named twice has two."""
        rows = {
            name: [self.groups * size for part, size in zip(self.parts, self.sizes, strict=True) if part == name]
            for name in self.parts
        }
        cut = {name: iter(part.split(rows[name])) for name, part in zip(self.parts, parts, strict=True)}
        return [next(cut[name]) for name in self.parts]


@dataclass(frozen=True)
class Family:
    """A published layout: what it supports, its settings and its table of names."""

    name: str  # display name
    types: tuple[str, ...]  # transformers' model_type of its members
    supported: Supported
    obstacles: Callable[[Config], list[Message]]  # requirements that involve several settings: "n_kv_head=4 (here 2)"
    settings: Table
    rows: Callable[[Config], list[TensorRow]]
    fill: Callable[[Config, State], State] = lambda config, state: state  # adds tensors that the layout always has
    ignored: str = "$^"  # pattern of tensors in published files that are not needed; {n_layer}
    prefix: str = ""  # of all names except the head's; files of the bare model lack it
    head: str = "$^"  # pattern of names without the prefix
    repeats: dict[str, str] = field(default_factory=dict)  # copies that files may have -> their source
    example: dict[str, Value] = field(default_factory=dict)  # settings that every model of this layout needs
    member: Callable[[Config], str] | None = None  # which of `types` a model is; None: the first

    def read(self, hf_config: HfConfig, tensors: Mapping[str, Tensor]) -> Config:
        """Return the Config of a config.json. Only the names of the tensors matter, except for Marian's positions."""
        return read_table(self.settings, hf_config, tensors, self.supported)

    def write(self, config: Config) -> HfConfig:
        """Return the config.json of a Config."""
        return write_table(self.settings, config, self.member(config) if self.member else self.types[0])

    def names(self, member: str) -> Pairs:
        """Yield our name and a member's config.json name of each setting."""
        return (pair for entry in entries_of(self.settings, member) for pair in entry.names())


# Features that a layout lacks unless it declares them.
PLAIN: Supported = dict(
    kind=("decoder",),
    position=("rotary",),
    norm=("rms",),
    norm_place=("pre",),
    feed_forward=("swiglu",),
    qk_norm=(None,),
    window=(None,),
    mixer=("attention",),
    embedding_scale=(1.0,),
    embedding_norm=(False,),
    head=("linear",),
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


def supports(*free: str, **values: tuple[Value, ...]) -> Supported:
    """Return what a layout supports: PLAIN with these values; settings in `free` may have any value."""
    return {name: choices for name, choices in (PLAIN | values).items() if name not in free}


def linear(prefix: str | Sequence[str], hf_prefix: str, *, bias: bool, transposed: bool = False) -> list[TensorRow]:
    """Return the rows of a weight and, if there is one, its bias."""
    parts = (prefix,) if isinstance(prefix, str) else prefix
    rows = [TensorRow(tuple(f"{part}.weight" for part in parts), f"{hf_prefix}.weight", transposed)]
    return rows + [TensorRow(tuple(f"{part}.bias" for part in parts), f"{hf_prefix}.bias")] * bias


def find_obstacles(family: Family, config: Config) -> list[Message]:
    """Return what the layout would need for each unsupported setting; empty if the model fits."""
    obstacles = []
    for name, values in family.supported.items():
        if getattr(config, name) not in values:
            obstacles.append(need(one_of(f"{name}={value!r}" for value in values), repr(getattr(config, name))))
    return obstacles + family.obstacles(config)


def need(needed: str | Message | Listed, *actual: object) -> Message:
    """Return the message of a requirement and the actual values."""
    return Message("{wanted} (here {here})", wanted=needed, here=Listed(actual, _(" and ")))


def shared_head_obstacles(config: Config) -> list[Message]:
    """Return the obstacle of a layout without shared key heads."""
    shares = config.n_kv_head not in (None, config.n_head)
    return [need(f"n_kv_head={config.n_head}", config.n_kv_head)] if shares else []


def head_obstacles(config: Config) -> list[Message]:
    """Return the obstacles of a layout without shared key heads whose heads divide the width."""
    return shared_head_obstacles(config) + width_obstacles(config)


def width_obstacles(config: Config) -> list[Message]:
    """Return the obstacle of a layout whose heads divide the width."""
    obstacles = []
    if config.head_width is not None and config.head_width * config.n_head != config.width:
        obstacles.append(need("head_width × n_head = width", f"{config.head_width} × {config.n_head}", config.width))
    return obstacles


def zero_biases(config: Config, state: State) -> State:
    """Add zero biases to the matrices of the blocks that have none, for layouts that always have them."""
    inside = re.compile(r"(.*\.(?:attention|cross|feed_forward)\.\w+)\.weight")
    matrices = {match[1]: weight for name, weight in state.items() if (match := inside.fullmatch(name))}
    return {f"{name}.bias": weight.new_zeros(len(weight)) for name, weight in matrices.items()} | state


def rename_to_hf(family: Family, config: Config, state: State) -> State:
    """Return our tensors under their names."""
    state, hf_tensors = family.fill(config, state), {}
    rows = family.rows(config)
    _refuse_names("place", family, set(state) - {part for row in rows for part in row.parts})
    for row in rows:
        name = row.hf_name.removeprefix(family.prefix) if config.output.head == "none" else row.hf_name
        hf_tensors[name] = row.write([state[part] for part in row.parts])
    return hf_tensors


def rename_from_hf(family: Family, config: Config, tensors: Mapping[str, Tensor]) -> State:
    """Return their tensors under our names, as `Transformer(config).load_state_dict` takes them."""
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
    if config.embedding.tied and config.predicts_words:
        state["head.weight"] = state["embedding.weight"]
    for side, layers in zip(("encoder", "decoder"), config.layers, strict=True):
        table = f"{side}.0.attention.position.table"  # shared by all layers of a side
        state |= {f"{side}.{i}.attention.position.table": state[table] for i in range(layers) if table in state}
    return state


def _renamed(tensors: Mapping[str, Tensor], names: dict[str, str]) -> Mapping[str, Tensor]:
    """Return tensors under other names (new -> old), each read on access."""
    return LazyTensors({new: partial(tensors.__getitem__, old) for new, old in names.items()})


def normalise_names(family: Family, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Add the prefix that files of a bare model lack, and rename old BERT's gamma and beta."""
    bare = not any(name.startswith(family.prefix) for name in tensors)
    names = {}
    for name in tensors:
        new = re.sub(r"(LayerNorm\.)beta$", r"\1bias", re.sub(r"(LayerNorm\.)gamma$", r"\1weight", name))
        names[family.prefix + new if bare and not re.search(family.head, new) else new] = name
    return _renamed(tensors, names)


def resolve_repeats(
    family: Family, config: Config, tensors: Mapping[str, Tensor]
) -> tuple[Config, Mapping[str, Tensor]]:
    """Compare the copies of tensors that a file holds. Where one differs, use it, with a warning, as transformers does.

    A copy also replaces its source where a file has only the copy.
    """
    sources, repeats = {name: name for name in tensors}, family.repeats
    if config.source_vocab is not None:  # no copies, but files of transformers 4 have one table for both sides
        for copy, source in repeats.items():
            if source in sources and copy.endswith(".embed_tokens.weight"):
                sources.setdefault(copy, source)
        return config, _renamed(tensors, sources)
    side_copies = [copy for copy in repeats if copy.endswith(".embed_tokens.weight")]  # the input tables of both sides
    for copy, source in repeats.items():
        if copy in sources:
            sources.setdefault(source, copy)
        elif source in sources and copy.endswith(".bias"):  # an untied head has a bias too
            sources[copy] = source

    def differ(a: str, b: str) -> bool:
        return sources[a] != sources[b] and not torch.equal(tensors[sources[a]], tensors[sources[b]])

    # An untied config.json implies a separate head.
    copies = [copy for copy in repeats if copy in sources and (config.embedding.tied or copy in side_copies)]
    differing = [copy for copy in copies if differ(copy, repeats[copy])]
    if not differing:
        return config, _renamed(tensors, sources)
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
    return config.replace(tied=config.embedding.tied and head not in differing), _renamed(tensors, sources)


# Settings that messages call by our name: common words, or values that differ in theirs.
OWN_NAMES = ("dropout", "bias", "parallel", "feed_forward", "depth_scale", "norm_place", "embedding_scale")


def use_config_names(problem: Problem, hf_config: HfConfig, names: Pairs) -> Problem:
    """Return the problem with the names of settings as the config.json has them."""
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
