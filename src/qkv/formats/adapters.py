"""Low-rank adapters (LoRA): a model learns a little beside its weights, which stay as they are.

    y = W·x + b + scale·B·(A·x)        W (O, I) frozen; A (R, I) and B (O, R) learn; scale is alpha / R

B begins at 0, so that nothing is changed before the first step. Merged, W + scale·B·A is a plain matrix again. Saved alone an
adapter takes a few MB, as `peft` keeps it: adapter_config.json and adapter_model.safetensors, under the names that transformers
has for the matrices, or under ours where no published layout holds the model. A layout may stack several of our matrices into
one (GPT-2's q, k and v): then their A stand one above the other, and their B along a diagonal.

R rank, I inputs, O outputs.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import Tensor, nn

from ..attention.heads import MultiHeadAttention
from ..disk.bounded_reading import read_table
from ..i18n import Problem, _, all_of
from ..model.config import Config
from ..model.layer_pattern import choose
from ..model.layers import FeedForward
from ..model.transformer import Transformer
from .tensor_files import read_tensors, refuse_infinite

if TYPE_CHECKING:
    from .families.family import Family, TensorRow

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"  # as peft calls them
PARTS = ("attention", "all")  # which matrices get an adapter: those of attention, or those of feed-forwards too
WITHIN = "base_model.model."  # peft's names begin with it
KINDS = {"decoder": "CAUSAL_LM", "encoder-decoder": "SEQ_2_SEQ_LM", "encoder": None}
# What peft's other settings must be for us to mean the same; what isn't said counts as right.
MEANT = {"peft_type": ("LORA",), "bias": ("none",), "use_dora": (False, None), "lora_bias": (False, None)}
LARGEST = 1e6  # of a rank and an alpha: those that are used have a few hundred at most
UNKNOWN = ("target_parameters", "trainable_token_indices", "layer_replication", "corda_config", "arrow_config")


class LowRank(nn.Linear):
    """`nn.Linear` with its matrix frozen and two thin ones beside it.

    >>> _ = torch.manual_seed(0)
    >>> linear, x = nn.Linear(6, 4), torch.randn(3, 6)
    >>> made = LowRank(linear, rank=2, scale=2.0)
    >>> bool(torch.equal(made(x), linear(x))), [name for name, p in made.named_parameters() if p.requires_grad]
    (True, ['a', 'b'])
    """

    def __init__(self, linear: nn.Linear, rank: int, scale: float) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.scale = linear.in_features, linear.out_features, scale
        self.weight, self.bias = linear.weight, linear.bias
        self.requires_grad_(False)
        self.a = nn.Parameter(self.weight.new_empty(rank, self.in_features))
        self.b = nn.Parameter(self.weight.new_zeros(self.out_features, rank))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    @property
    def rank(self) -> int:
        """R."""
        return len(self.a)

    def forward(self, x: Tensor) -> Tensor:
        """(…, I) → (…, O)."""
        return super().forward(x) + F.linear(F.linear(x, self.a), self.b * self.scale)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A plain matrix that does the same."""
        plain = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None, device="meta")
        plain.weight = nn.Parameter(torch.addmm(self.weight, self.b, self.a, alpha=self.scale))
        plain.bias = self.bias
        return plain.requires_grad_()


def adapt(
    model: Transformer, rank: int, alpha: float | None = None, parts: str = "attention", base: str = "?"
) -> Transformer:
    """Freeze a model and put adapters beside its projections, in place; a head for labels goes on learning as a whole.

    `base` is where the model came from, for whoever opens the adapter later.

    >>> model = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4))
    >>> ids = torch.tensor([[3, 1, 4]])
    >>> before = model(ids)
    >>> bool(torch.equal(adapt(model, 4)(ids), before)), sum(p.numel() for p in model.parameters() if p.requires_grad)
    (True, 2048)
    """
    choose("lora_parts", parts, PARTS)
    found = dict(_projections(model, parts))
    if not found:
        raise Problem("this model has no projections of attention to put low-rank adapters beside: train all of it")
    model.requires_grad_(False)
    model.base = base
    for name, linear in found.items():
        _set(model, name, LowRank(linear, rank, (2 * rank if alpha is None else alpha) / rank))
    for name in _whole(model.config):
        model.get_submodule(name).requires_grad_()
    return model


def merge(model: Transformer) -> Transformer:
    """Put what the adapters learned into the matrices, in place.

    >>> model = adapt(Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)), 4)
    >>> any(isinstance(module, LowRank) for module in merge(model).modules())
    False
    """
    for name, module in list(model.named_modules()):
        if isinstance(module, LowRank):
            _set(model, name, module.merged())
    return model.requires_grad_()


def _projections(model: Transformer, parts: str) -> Iterator[tuple[str, nn.Linear]]:
    """The matrices that get an adapter. Only those that are always called: mixers read some of theirs otherwise."""
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention) or (parts == "all" and isinstance(module, FeedForward)):
            for own, part in module.named_children():
                if type(part) is nn.Linear:
                    yield f"{name}.{own}", part


def _whole(config: Config) -> tuple[str, ...]:
    """Modules that learn as a whole beside the adapters, since nobody taught them before."""
    return ("head", "pooler") if config.output.head == "classes" else ()


def _set(model: nn.Module, name: str, module: nn.Module) -> None:
    owner, _, own = name.rpartition(".")
    setattr(model.get_submodule(owner), own, module)


def _layout(model: Transformer) -> Family | None:
    """The layout that the weights were read from, else one that holds the model, if there is any."""
    from .families import FAMILIES, family_of
    from .families.setting_table import Foreign

    try:
        return next((each for each in FAMILIES if model.layout in each.types), None) or family_of(model.config)
    except Foreign:
        return None


def _rows(model: Transformer) -> tuple[list[TensorRow], str]:
    """Where each tensor lies in its layout, and what names begin with that are left out."""
    from .families.family import TensorRow

    family = _layout(model)
    if family is None:
        plain = (name for name, _ in model.named_parameters() if not name.endswith((".a", ".b")))
        return [TensorRow(name, name) for name in plain], ""
    return family.rows(model.config), family.prefix if model.config.output.head == "none" else ""


def saved(model: Transformer) -> dict[str, bytes]:
    """The two files of an adapter, as peft writes them: what stands in adapter_config.json and in adapter_model.safetensors."""
    rows, prefix = _rows(model)
    modules = {name: module for name, module in model.named_modules() if isinstance(module, LowRank)}
    whole = _whole(model.config)
    tensors: dict[str, Tensor] = {}
    sizes: dict[str, tuple[int, float]] = {}  # their module -> rank and alpha
    kept: set[str] = set()
    for row in rows:
        name = row.theirs.removeprefix(prefix)
        ours = list(dict.fromkeys(part.removesuffix(".weight") for part in row.parts))
        if all(part in modules for part in ours):
            some = [modules[part] for part in ours]
            own = name.removesuffix(".weight")
            tensors[f"{WITHIN}{own}.lora_A.weight"] = torch.cat([module.a.detach() for module in some])
            tensors[f"{WITHIN}{own}.lora_B.weight"] = _stacked(row, ours, some)
            rank = sum(module.rank for module in some)
            sizes[own] = (rank, some[0].scale * rank)
        elif ours[0].split(".")[0] in whole:
            module, leaf = name.rpartition(".")[::2]
            tensors[f"{WITHIN}{module}.{leaf}"] = row.write([model.get_parameter(part).detach() for part in row.parts])
            kept.add("classifier" if module.startswith("classifier.") else module)  # RoBERTa's head is one module
    rank, alpha = Counter(sizes.values()).most_common(1)[0][0]
    config = {
        "peft_type": "LORA",
        "task_type": None if _layout(model) is None else "SEQ_CLS" if whole else KINDS[model.config.kind],
        "base_model_name_or_path": model.base,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": any(row.transposed for row in rows),
        "init_lora_weights": True,
        "inference_mode": True,
        "modules_to_save": sorted(kept) or None,
        "target_modules": sorted(sizes),
        "rank_pattern": {name: r for name, (r, _) in sizes.items() if r != rank},
        "alpha_pattern": {name: own for name, (_, own) in sizes.items() if own != alpha},
        "use_rslora": False,
        "use_dora": False,
    }
    content = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    return {CONFIG: (json.dumps(config, indent=2) + "\n").encode(), WEIGHTS: save(content, {"format": "pt"})}


def _plain(row: TensorRow) -> TensorRow:
    """The same row for a B: it has outputs like the matrix, and nothing else of it."""
    return replace(row, transposed=False, lifted=None, unused=0)


def _stacked(row: TensorRow, ours: list[str], modules: list[LowRank]) -> Tensor:
    """The B of a matrix that stacks several of ours: each reads its own rows of A."""
    ranks, at, placed = [module.rank for module in modules], 0, {}
    for name, module in zip(ours, modules, strict=True):
        wide = module.b.new_zeros(module.out_features, sum(ranks))
        wide[:, at : at + module.rank] = module.b.detach()
        placed[name], at = wide, at + module.rank
    return _plain(row).write([placed[part.removesuffix(".weight")] for part in row.parts])


def attach(model: Transformer, folder: Path) -> Transformer:
    """Put the adapter of a folder beside the matrices of a model, in place; one that is another model's is refused."""
    told = _read_config(folder / CONFIG)
    for name, (a, b, scale) in _read(model, folder, told).items():
        linear = model.get_submodule(name)
        if not isinstance(linear, LowRank):
            assert isinstance(linear, nn.Linear)
            linear = LowRank(linear, len(a), scale)
            _set(model, name, linear)
        elif linear.rank != len(a):
            raise Problem(
                "{file} has adapters of rank {there}, and this model was made for rank {here}",
                file=folder / WEIGHTS,
                there=len(a),
                here=linear.rank,
            )
        with torch.no_grad():
            linear.a.copy_(a)
            linear.b.copy_(b)
    return model


def _read(model: Transformer, folder: Path, told: dict[str, Any]) -> dict[str, tuple[Tensor, Tensor, float]]:
    """By the names of our modules: A, B and their scale. What learned as a whole is put into the model on the way."""
    file = folder / WEIGHTS
    tensors = {name.removeprefix(WITHIN): tensor for name, tensor in read_tensors(file).items()}
    rows, prefix = _rows(model)
    found: dict[str, tuple[Tensor, Tensor, float]] = {}
    for row in rows:
        name = row.theirs.removeprefix(prefix)
        own = name.removesuffix(".weight")
        if (whole := tensors.pop(name, None)) is not None:
            shape = row.write([model.get_parameter(part).to("meta") for part in row.parts]).shape
            for part, tensor in row.read(_fitting(file, name, whole, shape, told)).items():
                model.get_parameter(part).data.copy_(tensor)
        if (a := tensors.pop(f"{own}.lora_A.weight", None)) is None:
            continue
        parts = list(dict.fromkeys(row.parts))
        if not all(_is_linear(model, part) for part in parts):
            raise Problem(
                "{file} has an adapter beside {name}, which is not a linear layer: qkv reads adapters of linear layers only",
                file=file,
                name=name,
            )
        rank = _setting(told, "r", own)
        outputs, inputs = sum(len(model.get_parameter(part)) for part in parts), model.get_parameter(parts[0]).shape[1]
        a = _fitting(file, f"{own}.lora_A.weight", a, (rank, inputs), told)
        b = tensors.pop(f"{own}.lora_B.weight", a.new_zeros(0, 0))
        b = _fitting(file, f"{own}.lora_B.weight", b, (outputs, rank), told)
        scale = _setting(told, "lora_alpha", own) / (math.sqrt(rank) if told.get("use_rslora") else rank)
        blocks = _plain(row).read(b)
        each = len(a) // len(parts)
        # Where we stacked several, each reads only its own rows of A.
        apart = len(a) == each * len(parts) and all(
            not blocks[part][:, : i * each].any() and not blocks[part][:, (i + 1) * each :].any()
            for i, part in enumerate(parts)
        )
        for i, part in enumerate(parts):
            here = slice(i * each, (i + 1) * each) if apart else slice(None)
            found[part.removesuffix(".weight")] = (a[here], blocks[part][:, here], scale)
    if tensors:
        raise Problem(
            "{file} is an adapter for another model: it has {names}, and this model has no such place (it was made for {base})",
            file=file,
            names=all_of(sorted(tensors)[:3]),
            base=told["base_model_name_or_path"],
        )
    return found


def _is_linear(model: Transformer, name: str) -> bool:
    owner, _, leaf = name.rpartition(".")
    return leaf == "weight" and isinstance(model.get_submodule(owner), nn.Linear)


def _fitting(file: Path, name: str, tensor: Tensor, shape: Any, told: dict[str, Any]) -> Tensor:
    """The tensor in float32, if it has this shape and holds finite numbers."""
    if tuple(tensor.shape) != tuple(shape):
        raise Problem(
            "{file} is an adapter for another model: {name} is {there}, {here} is expected (it was made for {base})",
            file=file,
            name=name,
            there=tuple(tensor.shape),
            here=tuple(shape),
            base=told["base_model_name_or_path"],
        )
    if not tensor.is_floating_point():
        raise Problem(
            "{file}: {name} holds {dtype}, but weights are floating-point numbers: the file was damaged; get it again",
            file=file,
            name=name,
            dtype=str(tensor.dtype).removeprefix("torch."),
        )
    tensor = tensor.to(torch.float32)
    refuse_infinite(file, name, tensor)
    return tensor


PATTERNS = {"r": "rank_pattern", "lora_alpha": "alpha_pattern"}  # a setting -> the table of modules that have another


def _setting(told: dict[str, Any], name: str, module: str) -> Any:
    """The rank or the alpha of a module."""
    for pattern, value in told[PATTERNS[name]].items():
        if module == pattern or re.fullmatch(rf"(.*\.)?({re.escape(pattern)})", module):
            return value
    return told[name]


def _read_config(file: Path) -> dict[str, Any]:
    """adapter_config.json, if all that it says can be done here."""
    told = {"r": 8, "lora_alpha": 8, **read_table(file, _("{file} can't be read: {error}"))}
    for name, right in MEANT.items():
        if name in told and told[name] not in right:
            raise _unknown(file, name, told[name])
    for name in UNKNOWN:
        if told.get(name):
            raise _unknown(file, name, told[name])
    for name, pattern in PATTERNS.items():
        table = told[pattern] = told.get(pattern) or {}
        if not isinstance(table, dict) or not all(re.fullmatch(r"[\w.-]+", key) for key in table):
            raise _unknown(file, pattern, table)  # peft takes regular expressions, which may take for ever
        for value in (told[name], *table.values()):
            kinds, least = ((int,), 1.0) if name == "r" else ((int, float), -LARGEST)
            if type(value) not in kinds or not least <= value <= LARGEST:
                raise _unknown(file, name, value)
    told["base_model_name_or_path"] = str(told.get("base_model_name_or_path") or "?")
    return told


def _unknown(file: Path, name: str, value: Any) -> Problem:
    return Problem(
        "{file}: {name} is {value}, which qkv does not know; it reads plain LoRA",
        file=file,
        name=name,
        value=repr(value)[:80],
    )


def named_base(folder: Path) -> str:
    """What an adapter was made for, by name or place."""
    return _read_config(folder / CONFIG)["base_model_name_or_path"]
