"""Load models from runs of qkv, Hugging Face folders (safetensors, ONNX), GGUF files and CTranslate2 folders.

Other formats are first converted to Hugging Face's config and tensor names; `families` does the rest. Readers are
imported on demand: training needs none of them. Models are built on the meta device and take tensors as they are,
memory-mapped where possible, so weights are in memory about once. Nothing is ever unpickled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .. import text
from ..disk import bounded_reading, run_folder
from ..i18n import Message, Problem, _, all_of, quoted
from ..model.config import NAMES, Config
from ..model.config_checks import STATES
from ..model.transformer import Transformer
from ..text.tokenizer_folder import NoTokenizer
from .locate import find_model
from .tensor_files import Tensors, checked_finite, fingerprint, mapped_tensors, refuse_other_weights, weights_of

if TYPE_CHECKING:
    from .families.setting_table import HfConfig

PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
# Sizes in config.json. None exceeds the largest side of a tensor, and there are fewer layers than tensors:
# a damaged value could otherwise allocate more than all memory before any weight is read.
SIZES = (
    *("vocab_size", "decoder_vocab_size", "type_vocab_size", "relative_attention_num_buckets"),
    *("hidden_size", "n_embd", "d_model", "intermediate_size", "n_inner", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim"),
    *("num_attention_heads", "num_key_value_heads", "n_head", "num_heads", "head_dim", "d_kv"),
    *("encoder_attention_heads", "decoder_attention_heads"),
    *("state_size", "n_groups", "conv_kernel", "mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups"),
    *("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"),
    *("mamba_d_conv", "linear_conv_kernel_dim", "moe_intermediate_size"),
    *("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "v_head_dim", "ffn_dim", "word_embed_proj_dim"),
)
RUN_SIZES = (
    *("vocab", "width", "hidden", "head_width", "n_head", "n_kv_head"),
    *("embedding_width", "source_vocab", "token_types"),
)
RUN_LAYER_COUNTS = ("n_layer", "n_decoder_layer")
LAYER_COUNTS = (
    *("num_local_experts", "num_experts", "n_routed_experts"),
    *("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers"),
)


def load(name: str | Path, *, dtype: torch.dtype = torch.float32) -> tuple[Transformer, text.Tokenizer | None]:
    """Return a model in eval mode and its tokenizer, or None for a Hugging Face folder without one.

    `name` is a run of qkv (its best checkpoint, else the newest), one checkpoint of a run, a Hugging Face folder, a
    peft adapter (its base is loaded too), a CTranslate2 folder, a .gguf file, a name of the store, or hf:owner/name.
    Named models must be in the cache: nothing is downloaded.

    >>> model, tokenizer = load(Path(__file__).parents[1] / "demo" / "dates")  # the translator that comes with qkv
    >>> model.config.kind, tokenizer.decode(tokenizer.encode("May 4, 2026"))
    ('encoder-decoder', 'May 4, 2026')
    """
    return _load(name, dtype, ())


def _load(
    name: str | Path, dtype: torch.dtype, dependents: tuple[Path, ...]
) -> tuple[Transformer, text.Tokenizer | None]:
    """Load a model. `dependents` are the folders that were trained from it: none of them can be its base."""
    path = find_model(name)
    if (resolved := path.resolve()) in dependents:
        raise Problem(
            "{folder} is its own base: give the folder or the name of the model that it was trained from", folder=path
        )
    if path.is_file():
        return _load_gguf(path, dtype)
    config = read_json(path / "config.json") if (path / "config.json").is_file() else {}
    if run_folder.is_run(config):
        return _load_run(path, dtype, dependents=(*dependents, resolved))
    if (path / run_folder.STATE).is_file() and (path.parent.parent / run_folder.CONFIG).is_file():
        return _load_run(path.parent.parent, dtype, path, (*dependents, resolved, resolved.parent.parent))
    if not config and (path / run_folder.ADAPTER[0]).is_file():
        return _load_adapter(path, dtype, (*dependents, resolved))
    if "model_type" in config:
        model = _load_hf(path, config, dtype)
        try:
            return model, check_vocabulary(path, text.load(path), model)
        except NoTokenizer:  # token ids are enough for many uses
            return model, None
    from . import ctranslate2

    if folder := ctranslate2.find(path):
        hf_config, tensors = ctranslate2.read(path)
        return _load_marian(folder, build(folder / "model.bin", hf_config, tensors, dtype))
    if len(lone := sorted(path.glob("*.gguf"))) == 1:
        return _load_gguf(lone[0], dtype)
    raise _no_model(path, config)


def build(source: Path, hf_config: HfConfig, tensors: Tensors, dtype: torch.dtype = torch.float32) -> Transformer:
    """Build a Transformer from a config and tensors with Hugging Face's names."""
    from .families import from_hf

    refuse_impossible_sizes(source, hf_config, tensors.shapes)
    try:
        with SkipInit():
            config, state = from_hf(hf_config, checked_finite(source, tensors))
        model = empty_model(config)
    except Problem as problem:  # families do not know the file name
        raise (
            problem if "file" in problem.values else Problem("{file}: {problem}", file=source, problem=problem)
        ) from None
    except Exception as error:  # invalid values may raise anything
        raise Problem(
            "{file} describes no model that can be built: {error}", file=source, error=quoted(error)
        ) from error
    assign(source, model, state, dtype)
    model.layout = str(hf_config["model_type"])
    return model.eval()


def empty_model(config: Config) -> Transformer:
    """Return a Transformer on the meta device."""
    with torch.device("meta"), SkipInit():
        return Transformer(config)


class SkipInit(TorchFunctionMode):
    """Skip random initialisation on the meta device, for which PyTorch would import for two seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.__name__ in ("normal_", "uniform_", "mul"):
            tensor = args[0] if args else kwargs["tensor"]
            if isinstance(tensor, Tensor) and tensor.is_meta:
                return tensor
        return (torch.empty if func is torch.randn else func)(*args, **kwargs)


def assign(source: Path, model: Transformer, state: dict[str, Tensor], dtype: torch.dtype) -> None:
    """Set the tensors as a model's weights, without a copy where dtype and layout allow. Empties `state`.

    Every tensor needs a parameter: an unused one would be dropped silently.
    """
    if unread := sorted(state.keys() - dict(model.named_parameters(remove_duplicate=False)).keys()):
        raise Problem(
            "{file} has weights that its config does not have ({names}): the config is another model's, or damaged",
            file=source,
            names=all_of(unread[:5]),
        )
    for name, parameter in list(model.named_parameters()):
        if name not in state:
            raise Problem("{file} is not whole: the weights of {name} are missing", file=source, name=name)
        tensor = state.pop(name).to(dtype).contiguous()
        if tensor.shape != parameter.shape:
            raise Problem(
                "{file} doesn't fit its own config: {name} is {there}, {here} is expected",
                file=source,
                name=name,
                there=tuple(tensor.shape),
                here=tuple(parameter.shape),
            )
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, nn.Parameter(tensor, parameter.requires_grad))
    model.tie()
    if uncomputed := [name for name, buffer in model.named_buffers() if buffer.is_meta]:
        raise AssertionError(f"{uncomputed} are computed, not learned: they must not be made on the meta device")


def hf_tensors(folder: Path, dtype: torch.dtype = torch.float32, keep: bool = True) -> Tensors:
    """Return the tensors of a Hugging Face folder: a single file, or shards with an index."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        return mapped_tensors({single: None}, dtype, keep)
    if not index.is_file():
        raise _no_model(folder, {"model_type": ""})
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map or {type(shard) for shard in weight_map.values()} != {str}:
        raise Problem("{file} can't be read: {error}", file=index, error=Message("it has no weight_map"))
    shards: dict[Path, list[str]] = {}
    for name, shard in weight_map.items():
        if not shard.endswith(".safetensors") or not bounded_reading.is_plain(shard):
            raise Problem(
                "{file} names the weight file {shard}: only .safetensors files beside it are read",
                file=index,
                shard=repr(shard)[:80],
            )
        shards.setdefault(folder / shard, []).append(name)
    if missing := sorted(shard.name for shard in shards if not shard.is_file()):
        raise Problem(
            "{folder} is not whole: {count} of its weight files are missing ({names}); get them again",
            folder=folder,
            names=all_of(missing[:5]),
            count=len(missing),
        )
    return mapped_tensors(shards, dtype, keep)


def _load_run(
    folder: Path, dtype: torch.dtype, checkpoint: Path | None = None, dependents: tuple[Path, ...] = ()
) -> tuple[Transformer, text.Tokenizer]:
    """Load a run at its best checkpoint or at the given one. An adapter is merged into its base."""
    record = run_folder.read_record(folder)
    checkpoint = run_folder.best(folder) if checkpoint is None else checkpoint
    file = run_folder.weights_file(folder, checkpoint)
    if run_folder.is_adapter(checkpoint):
        from .adapters import attach, merge

        base = load_base(folder, record["base"], run_config(folder, record, None), dependents)
        return merge(attach(base, checkpoint)).to(dtype).eval(), text.load(folder)
    model = empty_model(run_config(folder, record, checkpoint))
    saved = mapped_tensors({file: None}, dtype)
    refuse_other_weights(file, saved.shapes, model)
    assign(file, model, dict(checked_finite(file, saved)), dtype)
    return model.eval(), text.load(folder)


def _load_hf(folder: Path, config: HfConfig, dtype: torch.dtype) -> Transformer:
    """Load a Hugging Face folder from safetensors, else from ONNX."""
    from . import onnx

    if file := find_onnx(folder):
        return build(file, *onnx.read(file, config), dtype)
    # GPT-2 stores its matrices transposed, so they are copied: free each page after that.
    return build(folder, config, hf_tensors(folder, dtype, keep=config["model_type"] != "gpt2"), dtype)


def find_onnx(folder: Path) -> Path | None:
    """Return the ONNX file that a folder is loaded from; None if it has safetensors."""
    from . import onnx

    return None if any(folder.glob("*.safetensors*")) else onnx.find(folder)


def load_base(folder: Path, base: Any, config: Config, dependents: tuple[Path, ...] = ()) -> Transformer:
    """Load the model that a run was trained from, with the head of its task. Raise Problem if its weights changed."""
    if not isinstance(base, dict) or not all(isinstance(base.get(key), str) for key in ("place", "sha256")):
        raise Problem("{file} can't be read: {error}", file=folder / run_folder.CONFIG, error=Message("it has no base"))
    try:
        model, _ = _load(base["place"], torch.float32, dependents or (folder.resolve(),))
    except Problem as problem:
        raise Problem(
            "{folder} was trained from {base}, which can't be opened: {problem}",
            folder=folder,
            base=base["place"],
            problem=problem,
        ) from None
    if fingerprint(model) != base["sha256"]:
        raise Problem(
            "{folder} was trained from {base}, whose weights have changed since: restore them, or start a new run",
            folder=folder,
            base=base["place"],
        )
    return transfer_weights(model, config)


def transfer_weights(model: Transformer, config: Config) -> Transformer:
    """Return a model of `config` with copies of the weights. A new head or a missing pooler is initialised randomly."""
    # Cloned, because they may be memory-mapped.
    state = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    has_same_head = config.output.head != "classes" or model.config.output.labels == config.output.labels
    target = empty_model(config) if has_same_head else Transformer(config)
    target.layout = model.layout
    if has_same_head:
        assign(Path("."), target, state, torch.float32)
        return target
    with torch.no_grad():
        for name, parameter in target.named_parameters():
            if name in state and not name.startswith("head."):
                parameter.copy_(state[name])
    return target


def _load_adapter(
    folder: Path, dtype: torch.dtype, dependents: tuple[Path, ...]
) -> tuple[Transformer, text.Tokenizer | None]:
    """Load an adapter and its base, merged."""
    from .adapters import attach, base_name, merge

    base = base_name(folder)
    if not os.path.exists(base) and base.count("/") == 1:
        base = f"hf:{base}"
    try:
        model, tokenizer = _load(base, torch.float32, dependents)
    except Problem as problem:
        raise Problem(
            "{folder} is an adapter, and its base can't be opened: {problem}. Its path or name is "
            "base_model_name_or_path in {file}",
            folder=folder,
            problem=problem,
            file=folder / run_folder.ADAPTER[0],
        ) from None
    model = merge(attach(transfer_weights(model, model.config), folder)).to(dtype).eval()
    return model, text.load(folder) if (folder / "tokenizer.json").is_file() else tokenizer


def _load_gguf(file: Path, dtype: torch.dtype) -> tuple[Transformer, text.Tokenizer]:
    from ..text.imported_tokenizers import from_gguf
    from . import gguf

    contents = gguf.read(file)
    model = build(file, contents.config, contents.tensors, dtype)
    return model, check_vocabulary(file, from_gguf(contents.vocabulary), model)


def _load_marian(folder: Path, model: Transformer) -> tuple[Transformer, text.Tokenizer]:
    from ..text.imported_tokenizers import from_shared
    from . import ctranslate2

    pieces = next((f for p in (folder, folder.parent) if (f := p / "sentencepiece.model").is_file()), None)
    if pieces is None:
        raise Problem(
            "{folder} has no sentencepiece.model beside model.bin: text can't be tokenised without it", folder=folder
        )
    return model, check_vocabulary(folder, from_shared(pieces, ctranslate2.vocabulary(folder)), model)


def check_vocabulary(source: Path, tokenizer: text.Tokenizer, model: Transformer) -> text.Tokenizer:
    """Return the tokenizer. Raise Problem if it has more tokens than the model."""
    if tokenizer.vocab > max(model.config.vocab, model.config.read_vocab):
        raise Problem(
            "{file}: the tokenizer has {tokens} tokens and the model {vocab}: it is another model's",
            file=source,
            tokens=tokenizer.vocab,
            vocab=model.config.vocab,
        )
    return tokenizer


def read_json(file: Path) -> HfConfig:
    """Return a JSON object from a file."""
    return bounded_reading.read_table(file, _("{file} can't be read: {error}"))


def refuse_impossible_sizes(source: Path, hf_config: HfConfig, shapes: dict[str, tuple[int, ...]]) -> None:
    """Raise Problem if a config has sizes that its tensors rule out, or quantised weights."""
    if method := hf_config.get("quantization_config"):
        method = method.get("quant_method", "") if isinstance(method, dict) else method
        raise Problem(
            "{file} is quantised ({method}), which qkv does not read: take its unquantised version, or a GGUF",
            file=source,
            method=str(method)[:80],
        )
    # A Qwen3-Next without experts has this setting too.
    unused = ("moe_intermediate_size",) if hf_config.get("num_experts") == 0 else ()
    _refuse_larger_than(source, hf_config, shapes, [name for name in SIZES if name not in unused], LAYER_COUNTS)


def _refuse_larger_than(
    file: Path, config: HfConfig, shapes: dict[str, tuple[int, ...]], sizes: Sequence[str], layers: Sequence[str]
) -> None:
    longest = max((side for shape in shapes.values() for side in shape), default=0)
    for names, most in ((sizes, longest), (layers, len(shapes))):
        for name in names:
            if isinstance(config.get(name), int | float) and not config[name] <= most:
                raise Problem(
                    "{file}: {name} is {value}, but its weights allow {most} at most: the config is another model's, or "
                    "damaged",
                    file=file,
                    name=name,
                    value=config[name],
                    most=most,
                )


def _no_model(folder: Path, config: HfConfig) -> Problem:
    """Return the reason why a folder can't be loaded."""
    pickled = sorted({file.name for pattern in PICKLED for file in folder.glob(pattern)})
    if pickled and not any(folder.glob("*.safetensors")):
        return Problem(
            "{folder} has its weights as {names} only, a pickled file, which can run any program when it is "
            "opened: qkv never opens one. If you trust where it is from, convert it with transformers:  python -c "
            '"from transformers import AutoModel; '
            "AutoModel.from_pretrained('{folder}').save_pretrained('converted')\"  (AutoModelForCausalLM, "
            "AutoModelForMaskedLM or AutoModelForSeq2SeqLM where it has such a head), and copy its tokenizer "
            "files there",
            folder=folder,
            names=all_of(pickled[:3]),
        )
    if len(names := sorted(file.name for file in folder.glob("*.gguf"))) > 1:
        return Problem(
            "{folder} has several models: name one of {names} with its folder", folder=folder, names=all_of(names[:5])
        )
    if "model_type" in config:
        return Problem(
            "{folder} has no weights: there is neither model.safetensors nor model.safetensors.index.json",
            folder=folder,
        )
    if config:
        return Problem(
            "{file} has neither 'format', as a run of qkv does, nor 'model_type', as a Hugging Face model does: "
            "it belongs to something else",
            file=folder / "config.json",
        )
    return run_folder.not_a_run(folder)


def run_config(folder: Path, record: Mapping[str, object], checkpoint: Path | None) -> Config:
    """Return the model config of a run. Raise Problem if its sizes exceed those of the checkpoint's tensors."""
    file = folder / run_folder.CONFIG
    try:
        config = Config.from_dict(record.get("model"))
    except Problem as problem:
        raise Problem("{file}: {problem}", file=file, problem=problem) from None
    if checkpoint is not None:
        shapes = mapped_tensors({checkpoint / run_folder.WEIGHTS: None}, torch.float32).shapes
        # Only the sizes of parts that the model has are checked.
        sizes = [*RUN_SIZES, *(["relative_buckets"] if config.position == "relative" else [])]
        sizes += NAMES["latent"].values() if "latent" in config.mixers else []
        sizes += NAMES["state"].values() if any(word in STATES for word in config.mixers) else []
        _refuse_larger_than(file, config.to_dict(), shapes, sizes, RUN_LAYER_COUNTS)
    return config
