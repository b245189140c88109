"""Low-rank adapters (LoRA): small trained matrices beside frozen weights.

    y = W·x + b + scale·B·(A·x)        W (O, I) frozen; A (R, I) and B (O, R) trained; scale = alpha / R

B starts at 0, so the first forward pass is unchanged. Merging gives the plain matrix W + scale·B·A. An adapter is saved
as `peft` saves it, in adapter_config.json and adapter_model.safetensors, under transformers' names, or under qkv's
where no published layout fits the model. Where a layout stacks several of our matrices (GPT-2's q, k and v), their A
are stacked and their B form a block-diagonal matrix.

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
from ..model.config_checks import choose
from ..model.layers import FeedForward
from ..model.transformer import Transformer
from .tensor_files import read_tensors, refuse_infinite

if TYPE_CHECKING:
    from .families.family import Family, TensorRow

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"  # as peft calls them
PARTS = ("attention", "all")  # attention only, or feed-forwards too
PREFIX = "base_model.model."  # of all tensor names in peft
KINDS = {"decoder": "CAUSAL_LM", "encoder-decoder": "SEQ_2_SEQ_LM", "encoder": None}
# peft's other settings and the values that are supported; a missing setting is fine.
REQUIRED = {"peft_type": ("LORA",), "bias": ("none",), "use_dora": (False, None), "lora_bias": (False, None)}
MAX_NUMBER = 1e6  # limit for rank and alpha; common values are below 1000
UNSUPPORTED = ("target_parameters", "trainable_token_indices", "layer_replication", "corda_config", "arrow_config")


class LowRank(nn.Linear):
    """`nn.Linear` with a frozen matrix and a trained low-rank update.

    >>> _ = torch.manual_seed(0)
    >>> linear, x = nn.Linear(6, 4), torch.randn(3, 6)
    >>> adapted = LowRank(linear, rank=2, scale=2.0)
    >>> bool(torch.equal(adapted(x), linear(x))), [name for name, p in adapted.named_parameters() if p.requires_grad]
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
        """The rank R."""
        return len(self.a)

    def forward(self, x: Tensor) -> Tensor:
        """(…, I) → (…, O)."""
        return super().forward(x) + F.linear(F.linear(x, self.a), self.b * self.scale)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """Return a plain linear layer with the same output."""
        plain = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None, device="meta")
        plain.weight = nn.Parameter(torch.addmm(self.weight, self.b, self.a, alpha=self.scale))
        plain.bias = self.bias
        return plain.requires_grad_()


def adapt(
    model: Transformer, rank: int, alpha: float | None = None, parts: str = "attention", base: str = "?"
) -> Transformer:
    """Freeze a model and add adapters to its projections, in place. A classification head stays trainable.

    `base` is the model's name or path, stored in the adapter so that it can be loaded again.

    >>> model = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4))
    >>> ids = torch.tensor([[3, 1, 4]])
    >>> before = model(ids)
    >>> bool(torch.equal(adapt(model, 4)(ids), before)), sum(p.numel() for p in model.parameters() if p.requires_grad)
    (True, 2048)
    """
    choose("lora_parts", parts, PARTS)
    projections = dict(_projections(model, parts))
    if not projections:
        raise Problem("this model has no projections of attention to put low-rank adapters beside: train all of it")
    model.requires_grad_(False)
    model.base = base
    for name, linear in projections.items():
        _set_module(model, name, LowRank(linear, rank, (2 * rank if alpha is None else alpha) / rank))
    for name in _trained_modules(model.config):
        model.get_submodule(name).requires_grad_()
    return model


def merge(model: Transformer) -> Transformer:
    """Merge all adapters into the matrices, in place.

    >>> model = adapt(Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)), 4)
    >>> any(isinstance(module, LowRank) for module in merge(model).modules())
    False
    """
    for name, module in list(model.named_modules()):
        if isinstance(module, LowRank):
            _set_module(model, name, module.merged())
    return model.requires_grad_()


def _projections(model: Transformer, parts: str) -> Iterator[tuple[str, nn.Linear]]:
    """Yield the layers to adapt. Mixers are left out: they read some matrices without calling the layer."""
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention) or (parts == "all" and isinstance(module, FeedForward)):
            for own, part in module.named_children():
                if type(part) is nn.Linear:
                    yield f"{name}.{own}", part


def _trained_modules(config: Config) -> tuple[str, ...]:
    """Return the modules that are trained in full, because they were not pretrained."""
    return ("head", "pooler") if config.output.head == "classes" else ()


def _set_module(model: nn.Module, name: str, module: nn.Module) -> None:
    owner, _, own = name.rpartition(".")
    setattr(model.get_submodule(owner), own, module)


def _family_of(model: Transformer) -> Family | None:
    """Return the layout that the weights were read from, else one that fits the model, else None."""
    from .families import FAMILIES, family_of
    from .families.setting_table import Unsupported

    try:
        return next((each for each in FAMILIES if model.layout in each.types), None) or family_of(model.config)
    except Unsupported:
        return None


def _rows_of(model: Transformer) -> tuple[list[TensorRow], str]:
    """Return the rows of the model's layout and the prefix that its names leave out."""
    from .families.family import TensorRow

    family = _family_of(model)
    if family is None:
        plain = (name for name, _ in model.named_parameters() if not name.endswith((".a", ".b")))
        return [TensorRow(name, name) for name in plain], ""
    return family.rows(model.config), family.prefix if model.config.output.head == "none" else ""


def adapter_files(model: Transformer) -> dict[str, bytes]:
    """Return the content of adapter_config.json and adapter_model.safetensors, as peft writes them."""
    rows, prefix = _rows_of(model)
    modules = {name: module for name, module in model.named_modules() if isinstance(module, LowRank)}
    trained_modules = _trained_modules(model.config)
    tensors: dict[str, Tensor] = {}
    sizes: dict[str, tuple[int, float]] = {}  # their module -> rank and alpha
    whole_modules: set[str] = set()
    for row in rows:
        name = row.hf_name.removeprefix(prefix)
        own_names = list(dict.fromkeys(part.removesuffix(".weight") for part in row.parts))
        if all(part in modules for part in own_names):
            adapters = [modules[part] for part in own_names]
            hf_module = name.removesuffix(".weight")
            tensors[f"{PREFIX}{hf_module}.lora_A.weight"] = torch.cat([adapter.a.detach() for adapter in adapters])
            tensors[f"{PREFIX}{hf_module}.lora_B.weight"] = _block_diagonal(row, own_names, adapters)
            rank = sum(adapter.rank for adapter in adapters)
            sizes[hf_module] = (rank, adapters[0].scale * rank)
        elif own_names[0].split(".")[0] in trained_modules:
            parent, leaf = name.rpartition(".")[::2]
            tensors[f"{PREFIX}{parent}.{leaf}"] = row.write([model.get_parameter(part).detach() for part in row.parts])
            # RoBERTa's head is a single module.
            whole_modules.add("classifier" if parent.startswith("classifier.") else parent)
    rank, alpha = Counter(sizes.values()).most_common(1)[0][0]
    config = {
        "peft_type": "LORA",
        "task_type": None if _family_of(model) is None else "SEQ_CLS" if trained_modules else KINDS[model.config.kind],
        "base_model_name_or_path": model.base,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": any(row.transposed for row in rows),
        "init_lora_weights": True,
        "inference_mode": True,
        "modules_to_save": sorted(whole_modules) or None,
        "target_modules": sorted(sizes),
        "rank_pattern": {name: r for name, (r, _) in sizes.items() if r != rank},
        "alpha_pattern": {name: number for name, (_, number) in sizes.items() if number != alpha},
        "use_rslora": False,
        "use_dora": False,
    }
    content = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    return {CONFIG: (json.dumps(config, indent=2) + "\n").encode(), WEIGHTS: save(content, {"format": "pt"})}


def _plain_row(row: TensorRow) -> TensorRow:
    """Return the row for B, which has the outputs of the matrix and no transposition."""
    return replace(row, transposed=False, unit_axis=None, unused=0)


def _block_diagonal(row: TensorRow, names: list[str], modules: list[LowRank]) -> Tensor:
    """Return the B of a stacked matrix: each part reads only its own rows of A."""
    ranks, at, columns = [module.rank for module in modules], 0, {}
    for name, module in zip(names, modules, strict=True):
        wide = module.b.new_zeros(module.out_features, sum(ranks))
        wide[:, at : at + module.rank] = module.b.detach()
        columns[name], at = wide, at + module.rank
    return _plain_row(row).write([columns[part.removesuffix(".weight")] for part in row.parts])


def attach(model: Transformer, folder: Path) -> Transformer:
    """Load the adapter of a folder into a model, in place. Raise Problem if it belongs to another model."""
    config = _read_config(folder / CONFIG)
    for name, (a, b, scale) in _read(model, folder, config).items():
        linear = model.get_submodule(name)
        if not isinstance(linear, LowRank):
            assert isinstance(linear, nn.Linear)
            linear = LowRank(linear, len(a), scale)
            _set_module(model, name, linear)
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


def _read(model: Transformer, folder: Path, config: dict[str, Any]) -> dict[str, tuple[Tensor, Tensor, float]]:
    """Return {module: (A, B, scale)}. Modules that were trained in full are copied into the model."""
    file = folder / WEIGHTS
    tensors = {name.removeprefix(PREFIX): tensor for name, tensor in read_tensors(file).items()}
    rows, prefix = _rows_of(model)
    adapters: dict[str, tuple[Tensor, Tensor, float]] = {}
    for row in rows:
        name = row.hf_name.removeprefix(prefix)
        hf_module = name.removesuffix(".weight")
        if (tensor := tensors.pop(name, None)) is not None:
            shape = row.write([model.get_parameter(part).to("meta") for part in row.parts]).shape
            for part, part_tensor in row.read(_check_tensor(file, name, tensor, shape, config)).items():
                model.get_parameter(part).data.copy_(part_tensor)
        if (a := tensors.pop(f"{hf_module}.lora_A.weight", None)) is None:
            continue
        parts = list(dict.fromkeys(row.parts))
        if not all(_is_linear(model, part) for part in parts):
            raise Problem(
                "{file} has an adapter beside {name}, which is not a linear layer: qkv reads adapters of linear layers only",
                file=file,
                name=name,
            )
        rank = _setting(config, "r", hf_module)
        outputs, inputs = sum(len(model.get_parameter(part)) for part in parts), model.get_parameter(parts[0]).shape[1]
        a = _check_tensor(file, f"{hf_module}.lora_A.weight", a, (rank, inputs), config)
        b = tensors.pop(f"{hf_module}.lora_B.weight", a.new_zeros(0, 0))
        b = _check_tensor(file, f"{hf_module}.lora_B.weight", b, (outputs, rank), config)
        scale = _setting(config, "lora_alpha", hf_module) / (math.sqrt(rank) if config.get("use_rslora") else rank)
        blocks = _plain_row(row).read(b)
        rank_per_part = len(a) // len(parts)
        # True if the file has one A per part, as qkv writes it.
        is_block_diagonal = len(a) == rank_per_part * len(parts) and all(
            not blocks[part][:, : i * rank_per_part].any() and not blocks[part][:, (i + 1) * rank_per_part :].any()
            for i, part in enumerate(parts)
        )
        for i, part in enumerate(parts):
            span = slice(i * rank_per_part, (i + 1) * rank_per_part) if is_block_diagonal else slice(None)
            adapters[part.removesuffix(".weight")] = (a[span], blocks[part][:, span], scale)
    if tensors:
        raise Problem(
            "{file} is an adapter for another model: it has {names}, which this model lacks (it was made for {base})",
            file=file,
            names=all_of(sorted(tensors)[:3]),
            base=config["base_model_name_or_path"],
        )
    return adapters


def _is_linear(model: Transformer, name: str) -> bool:
    owner, _, leaf = name.rpartition(".")
    return leaf == "weight" and isinstance(model.get_submodule(owner), nn.Linear)


def _check_tensor(file: Path, name: str, tensor: Tensor, shape: Any, config: dict[str, Any]) -> Tensor:
    """Return the tensor in float32. Raise Problem unless it has this shape and finite values."""
    if tuple(tensor.shape) != tuple(shape):
        raise Problem(
            "{file} is an adapter for another model: {name} is {there}, {here} is expected (it was made for {base})",
            file=file,
            name=name,
            there=tuple(tensor.shape),
            here=tuple(shape),
            base=config["base_model_name_or_path"],
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


def _setting(config: dict[str, Any], name: str, module: str) -> Any:
    """Return the rank or alpha of a module."""
    for pattern, value in config[PATTERNS[name]].items():
        if module == pattern or re.fullmatch(rf"(.*\.)?({re.escape(pattern)})", module):
            return value
    return config[name]


def _read_config(file: Path) -> dict[str, Any]:
    """Return adapter_config.json. Raise Problem if a setting is not supported."""
    config = {"r": 8, "lora_alpha": 8, **read_table(file, _("{file} can't be read: {error}"))}
    for name, right in REQUIRED.items():
        if name in config and config[name] not in right:
            raise _unsupported(file, name, config[name])
    for name in UNSUPPORTED:
        if config.get(name):
            raise _unsupported(file, name, config[name])
    for name, pattern in PATTERNS.items():
        table = config[pattern] = config.get(pattern) or {}
        if not isinstance(table, dict) or not all(re.fullmatch(r"[\w.-]+", key) for key in table):
            raise _unsupported(file, pattern, table)  # peft allows regular expressions, which may take exponential time
        for value in (config[name], *table.values()):
            kinds, least = ((int,), 1.0) if name == "r" else ((int, float), -MAX_NUMBER)
            if type(value) not in kinds or not least <= value <= MAX_NUMBER:
                raise _unsupported(file, name, value)
    config["base_model_name_or_path"] = str(config.get("base_model_name_or_path") or "?")
    return config


def _unsupported(file: Path, name: str, value: Any) -> Problem:
    return Problem(
        "{file}: {name} is {value}, which qkv does not know; it reads plain LoRA",
        file=file,
        name=name,
        value=repr(value)[:80],
    )


def base_name(folder: Path) -> str:
    """Return the name or path of the model that an adapter was trained from."""
    return _read_config(folder / CONFIG)["base_model_name_or_path"]
