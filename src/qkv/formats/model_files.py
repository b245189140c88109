"""Weights in and out, by name: runs of qkv, Hugging Face folders (safetensors, ONNX), GGUF files, CTranslate2 folders.

A foreign format is first brought into Hugging Face's words, a config and tensors by name; `families` does the rest.
Its reader is imported when such a file is opened: training on a text needs none of them.
The model is built without memory of its own and given the tensors as they come, mapped from the file where they can
be, so that the weights are in memory about once. Nothing is ever unpickled.
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
from ..model.config import Config
from ..model.config_groups import NAMES
from ..model.layer_pattern import STATES
from ..model.transformer import Transformer
from ..text.tokenizer_folder import NoTokenizer
from .locate import find
from .tensor_files import Tensors, fingerprint, finite, mapped_tensors, refuse_others, weights_of

if TYPE_CHECKING:
    from .families.setting_table import HfConfig

PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
# What config.json says of sizes: none can be larger than the largest side of a tensor, nor a model have more layers
# than tensors. A wrong one would have us build a model that no memory holds before any weight is looked at.
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
OUR_SIZES = (
    *("vocab", "width", "hidden", "head_width", "n_head", "n_kv_head"),
    *("embedding_width", "source_vocab", "token_types"),
)
OUR_LAYERS = ("n_layer", "n_decoder_layer")
LAYERS = (
    *("num_local_experts", "num_experts", "n_routed_experts"),
    *("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers"),
)


def load(name: str | Path, *, dtype: torch.dtype = torch.float32) -> tuple[Transformer, text.Tokenizer | None]:
    """A model and its tokenizer, ready to use (eval), by whatever names it; None where a Hugging Face folder has none.

    A folder (a run of qkv, whose best checkpoint is taken, or its newest; one checkpoint of a run; a Hugging Face folder;
    one with a low-rank adapter, as peft writes it, whose base is opened too; a CTranslate2 folder), a .gguf file, a name of
    the store, or hf:owner/name. Named ones must be in the cache: nothing is fetched.

    >>> model, tokenizer = load(Path(__file__).parents[1] / "demo" / "dates")  # the translator that comes with qkv
    >>> model.config.kind, tokenizer.decode(tokenizer.encode("May 4, 2026"))
    ('encoder-decoder', 'May 4, 2026')
    """
    return _load(name, dtype, ())


def _load(
    name: str | Path, dtype: torch.dtype, dependents: tuple[Path, ...]
) -> tuple[Transformer, text.Tokenizer | None]:
    """`dependents` are the folders that go on from this model, each from the next: none of them can be its base."""
    place = find(name)
    if (here := place.resolve()) in dependents:
        raise Problem(
            "{folder} is its own base: give the folder or the name of the model that it was trained from", folder=place
        )
    if place.is_file():
        return _gguf(place, dtype)
    config = read_json(place / "config.json") if (place / "config.json").is_file() else {}
    if run_folder.is_run(config):
        return _run(place, dtype, dependents=(*dependents, here))
    if (place / run_folder.STATE).is_file() and (place.parent.parent / run_folder.CONFIG).is_file():
        return _run(place.parent.parent, dtype, place, (*dependents, here, here.parent.parent))
    if not config and (place / run_folder.ADAPTER[0]).is_file():
        return _adapter(place, dtype, (*dependents, here))
    if "model_type" in config:
        model = _published(place, config, dtype)
        try:
            return model, fitting(place, text.load(place), model)
        except NoTokenizer:  # models of other things than text have none, and ids are enough for much
            return model, None
    from . import ctranslate2

    if found := ctranslate2.find(place):
        theirs, held = ctranslate2.read(place)
        return _marian(found, build(found / "model.bin", theirs, held, dtype))
    if len(lone := sorted(place.glob("*.gguf"))) == 1:
        return _gguf(lone[0], dtype)
    raise _nothing(place, config)


def build(source: Path, theirs: HfConfig, tensors: Tensors, dtype: torch.dtype = torch.float32) -> Transformer:
    """The Transformer of a config and tensors in Hugging Face's words."""
    from .families import to_ours

    refuse_absurd(source, theirs, tensors.shapes)
    try:
        with Undrawn():
            config, state = to_ours(theirs, finite(source, tensors))
        model = empty(config)
    except Problem as problem:  # families know nothing of files
        raise (
            problem if "file" in problem.values else Problem("{file}: {problem}", file=source, problem=problem)
        ) from None
    except Exception as error:  # whatever a config with nonsense in it makes of the arithmetic
        raise Problem(
            "{file} describes no model that can be built: {error}", file=source, error=quoted(error)
        ) from error
    assign(source, model, state, dtype)
    model.layout = str(theirs["model_type"])
    return model.eval()


def empty(config: Config) -> Transformer:
    """A Transformer whose weights have shapes and no memory."""
    with torch.device("meta"), Undrawn():
        return Transformer(config)


class Undrawn(TorchFunctionMode):
    """Weights without memory are not drawn, nor scaled: PyTorch would take two seconds to learn how to draw nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.__name__ in ("normal_", "uniform_", "mul"):
            tensor = args[0] if args else kwargs["tensor"]
            if isinstance(tensor, Tensor) and tensor.is_meta:
                return tensor
        return (torch.empty if func is torch.randn else func)(*args, **kwargs)


def assign(source: Path, model: Transformer, state: dict[str, Tensor], dtype: torch.dtype) -> None:
    """Make these tensors a model's weights as they are, without a copy where dtype and layout allow; empties `state`.

    Every tensor must have a parameter: one that nothing reads would be dropped silently.
    """
    if unread := sorted(state.keys() - dict(model.named_parameters(remove_duplicate=False)).keys()):
        raise Problem(
            "{file} has weights that its config leaves no place for ({names}): the config is another model's, or damaged",
            file=source,
            names=all_of(unread[:5]),
        )
    for name, meant in list(model.named_parameters()):
        if name not in state:
            raise Problem("{file} is not whole: the weights of {name} are missing", file=source, name=name)
        tensor = state.pop(name).to(dtype).contiguous()
        if tensor.shape != meant.shape:
            raise Problem(
                "{file} doesn't fit its own config: {name} is {there}, {here} is expected",
                file=source,
                name=name,
                there=tuple(tensor.shape),
                here=tuple(meant.shape),
            )
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, nn.Parameter(tensor, meant.requires_grad))
    model.tie()
    if unmade := [name for name, buffer in model.named_buffers() if buffer.is_meta]:
        raise AssertionError(f"{unmade} are computed, not learned: they must not be made on the meta device")


def published(folder: Path, dtype: torch.dtype = torch.float32, keep: bool = True) -> Tensors:
    """The tensors of a Hugging Face folder: one file, or shards with an index that says what lies where."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        return mapped_tensors({single: None}, dtype, keep)
    if not index.is_file():
        raise _nothing(folder, {"model_type": ""})
    where = read_json(index).get("weight_map")
    if not isinstance(where, dict) or not where or not all(isinstance(shard, str) for shard in where.values()):
        raise Problem("{file} can't be read: {error}", file=index, error=Message("it has no weight_map"))
    shards: dict[Path, list[str]] = {}
    for name, shard in where.items():
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


def _run(
    folder: Path, dtype: torch.dtype, place: Path | None = None, dependents: tuple[Path, ...] = ()
) -> tuple[Transformer, text.Tokenizer]:
    """A run at its best checkpoint, or at the one named."""
    record = run_folder.read_record(folder)
    place = run_folder.best(folder) if place is None else place
    file = run_folder.weights_file(folder, place)
    if run_folder.is_adapter(place):
        return _beside(folder, record, place, dependents).to(dtype).eval(), text.load(folder)
    model = empty(config_of(folder, record, place))
    saved = mapped_tensors({file: None}, dtype)
    refuse_others(file, saved.shapes, model)
    assign(file, model, dict(finite(file, saved)), dtype)
    return model.eval(), text.load(folder)


def _published(folder: Path, config: HfConfig, dtype: torch.dtype) -> Transformer:
    """The model of a Hugging Face folder, from safetensors, or from ONNX where it has none."""
    from . import onnx

    if file := in_onnx(folder):
        return build(file, *onnx.read(file, config), dtype)
    # GPT-2 keeps its matrices the other way round, so they are copied: let each page go when that is done.
    return build(folder, config, published(folder, dtype, keep=config["model_type"] != "gpt2"), dtype)


def in_onnx(folder: Path) -> Path | None:
    """The ONNX file that a Hugging Face folder is read from; None where it has safetensors, or neither."""
    from . import onnx

    return None if any(folder.glob("*.safetensors*")) else onnx.find(folder)


def _beside(folder: Path, record: run_folder.Record, place: Path, dependents: tuple[Path, ...]) -> Transformer:
    """The base of a run with what it learned beside it, merged."""
    from .adapters import attach, merge

    return merge(attach(base_of(folder, record["base"], config_of(folder, record, None), dependents), place))


def base_of(folder: Path, base: Any, config: Config, dependents: tuple[Path, ...] = ()) -> Transformer:
    """The model that a run goes on from, with the head that its task needs; weights that changed since are refused."""
    if not isinstance(base, dict) or not all(isinstance(base.get(key), str) for key in ("place", "sha256")):
        raise Problem("{file} can't be read: {error}", file=folder / run_folder.CONFIG, error=Message("it has no base"))
    try:
        model, _ = _load(base["place"], torch.float32, dependents or (folder.resolve(),))
    except Problem as problem:
        raise Problem(
            "{folder} goes on from {base}, which can't be opened: {problem}",
            folder=folder,
            base=base["place"],
            problem=problem,
        ) from None
    if fingerprint(model) != base["sha256"]:
        raise Problem(
            "{folder} goes on from {base}, whose weights are no longer those it was begun with: put the old ones back, or "
            "begin a new run",
            folder=folder,
            base=base["place"],
        )
    return fitted(model, config)


def fitted(model: Transformer, config: Config) -> Transformer:
    """A model of this config with the weights of another, copied; a head for other labels is drawn, and a missing pooler."""
    state = {name: tensor.clone() for name, tensor in weights_of(model).items()}  # they may be mapped from a file
    if config.output.head != "classes" or model.config.output.labels == config.output.labels:
        made = empty(config)
        assign(Path("."), made, state, torch.float32)
        made.layout = model.layout
        return made
    made = Transformer(config)
    made.layout = model.layout
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name in state and not name.startswith("head."):
                parameter.copy_(state[name])
    return made


def _adapter(
    folder: Path, dtype: torch.dtype, dependents: tuple[Path, ...]
) -> tuple[Transformer, text.Tokenizer | None]:
    """An adapter alone: its base is opened too, and the two are merged."""
    from .adapters import attach, merge, named_base

    base = named_base(folder)
    if not os.path.exists(base) and base.count("/") == 1:
        base = f"hf:{base}"
    try:
        model, tokenizer = _load(base, torch.float32, dependents)
    except Problem as problem:
        raise Problem(
            "{folder} is an adapter, and its base can't be opened: {problem}. Where it lies says base_model_name_or_path in "
            "{file}",
            folder=folder,
            problem=problem,
            file=folder / run_folder.ADAPTER[0],
        ) from None
    model = merge(attach(fitted(model, model.config), folder)).to(dtype).eval()
    return model, text.load(folder) if (folder / "tokenizer.json").is_file() else tokenizer


def _gguf(file: Path, dtype: torch.dtype) -> tuple[Transformer, text.Tokenizer]:
    from ..text.imported_tokenizers import from_gguf
    from . import gguf

    held = gguf.read(file)
    model = build(file, held.theirs, held.tensors, dtype)
    return model, fitting(file, from_gguf(held.vocabulary), model)


def _marian(place: Path, model: Transformer) -> tuple[Transformer, text.Tokenizer]:
    from ..text.imported_tokenizers import from_shared
    from . import ctranslate2

    pieces = next((f for p in (place, place.parent) if (f := p / "sentencepiece.model").is_file()), None)
    if pieces is None:
        raise Problem(
            "{folder} has no sentencepiece.model beside model.bin: without it no text becomes tokens", folder=place
        )
    return model, fitting(place, from_shared(pieces, ctranslate2.vocabulary(place)), model)


def fitting(source: Path, tokenizer: text.Tokenizer, model: Transformer) -> text.Tokenizer:
    """The tokenizer, if the model has a vector for each of its tokens."""
    if tokenizer.vocab > max(model.config.vocab, model.config.read_vocab):
        raise Problem(
            "{file}: the tokenizer has {tokens} tokens and the model {vocab}: it is another model's",
            file=source,
            tokens=tokenizer.vocab,
            vocab=model.config.vocab,
        )
    return tokenizer


def read_json(file: Path) -> HfConfig:
    """A JSON file that holds names and values."""
    return bounded_reading.read_table(file, _("{file} can't be read: {error}"))


def refuse_absurd(source: Path, theirs: HfConfig, shapes: dict[str, tuple[int, ...]]) -> None:
    """Refuse a config that speaks of sizes its own tensors don't have, or of weights that are quantised."""
    if told := theirs.get("quantization_config"):
        method = told.get("quant_method", "") if isinstance(told, dict) else told
        raise Problem(
            "{file} is quantised ({method}), which qkv does not read: take its unquantised version, or a GGUF",
            file=source,
            method=str(method)[:80],
        )
    # A Qwen3-Next without experts says how wide they would be.
    unused = ("moe_intermediate_size",) if theirs.get("num_experts") == 0 else ()
    _refuse_larger(source, theirs, shapes, [name for name in SIZES if name not in unused], LAYERS)


def _refuse_larger(
    file: Path, told: HfConfig, shapes: dict[str, tuple[int, ...]], sizes: Sequence[str], layers: Sequence[str]
) -> None:
    longest = max((side for shape in shapes.values() for side in shape), default=0)
    for names, most in ((sizes, longest), (layers, len(shapes))):
        for name in names:
            if isinstance(told.get(name), int | float) and not told[name] <= most:
                raise Problem(
                    "{file}: {name} is {value}, but its weights allow {most} at most: the config is another model's, or "
                    "damaged",
                    file=file,
                    name=name,
                    value=told[name],
                    most=most,
                )


def _nothing(folder: Path, config: HfConfig) -> Problem:
    """Why a folder can't be loaded."""
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
    if len(several := sorted(file.name for file in folder.glob("*.gguf"))) > 1:
        return Problem(
            "{folder} has several models: name one of {names} with its folder", folder=folder, names=all_of(several[:5])
        )
    if "model_type" in config:
        return Problem(
            "{folder} has no weights: there is neither model.safetensors nor model.safetensors.index.json",
            folder=folder,
        )
    if config:
        return Problem(
            "{file} says neither 'format', as a run of qkv does, nor 'model_type', as a Hugging Face model does: "
            "it is of something else",
            file=folder / "config.json",
        )
    return run_folder.not_a_run(folder)


def config_of(folder: Path, record: Mapping[str, object], place: Path | None) -> Config:
    """The model that a run's config.json describes, if it can be the one of a checkpoint's weights: none can be larger."""
    file = folder / run_folder.CONFIG
    try:
        config = Config.from_dict(record.get("model"))
    except Problem as problem:
        raise Problem("{file}: {problem}", file=file, problem=problem) from None
    if place is not None:
        shapes = mapped_tensors({place / run_folder.WEIGHTS: None}, torch.float32).shapes
        # Sizes of parts that the model doesn't have are there too, and say nothing of its weights.
        sizes = [*OUR_SIZES, *(["relative_buckets"] if config.position == "relative" else [])]
        sizes += NAMES["latent"].values() if "latent" in config.mixers else []
        sizes += NAMES["state"].values() if any(word in STATES for word in config.mixers) else []
        _refuse_larger(file, config.to_dict(), shapes, sizes, OUR_LAYERS)
    return config
