"""Every reader of foreign files: how valid files are made, which are damaged, and how they are opened and used."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from qkv.formats.families import FAMILIES

from . import damage

Damage = Callable[[bytes, Random], bytes]
TEXT = "Hello, 世界! ｶﾞ the cat\t<s></s> 🙂\n"


@dataclass(frozen=True)
class Reader:
    """`make(folder)` writes valid files, one of `files` (path → damage) is damaged, `open(folder, file)` reads them."""

    make: Callable[[Path], None]
    open: Callable[[Path, Path], object]
    files: dict[str, Damage]


# ── opening, in the worker ────────────────────────────────────────────────────────────────────────────────────────────


def use_tokenizer(tokenizer: Any) -> None:
    """Use a tokenizer as the commands do."""
    from qkv.i18n import Problem

    for text, special in ((TEXT, False), (TEXT, True), ("the cat", True)):
        try:
            ids = tokenizer.encode(text, special=special)
        except Problem:  # characters that a run has not learned
            continue
        tokenizer.decode(ids)
        list(tokenizer.stream(ids))
        tokenizer.whole(ids)
        tokenizer.frame(ids[:5])
    tokenizer.pieces(range(min(tokenizer.vocab, 3)))


def use_model(model: Any) -> None:
    """Check that every weight is loaded, and run the model."""
    import torch

    assert not any(p.is_meta for p in model.parameters()), "not whole"
    ids = torch.zeros(1, 3, dtype=torch.long)
    with torch.inference_mode():
        model(ids, ids) if model.config.kind == "encoder-decoder" else model(ids)


def open_model(path: Path) -> None:
    """Load and use a model; with a generation_config.json, generate a few tokens."""
    from qkv.formats import model_files
    from qkv.generation.decoding import stream

    model, tokenizer = model_files.load(path)
    use_model(model)
    use_tokenizer(tokenizer)
    if model.config.kind == "decoder" and (path / "generation_config.json").is_file():
        assert tokenizer is not None
        list(stream(model, tokenizer, "the", most=3, **tokenizer.habits.sampling()))


def open_tokenizer(folder: Path, file: Path) -> None:
    """Load and use only the tokenizer of a folder."""
    from qkv import text

    use_tokenizer(text.load(file.parent))


def open_pieces(folder: Path, file: Path) -> None:
    """Load a SentencePiece model alone, and as Marian uses it."""
    from qkv.text import imported_tokenizers

    use_tokenizer(imported_tokenizers.from_sentencepiece(file, begin=True, end=True))
    use_tokenizer(imported_tokenizers.from_sentencepiece(file, ["</s>", "<unk>", "▁the", "a"]))


def open_trace(folder: Path, file: Path) -> None:
    """Read a trace as `qkv see --trace` does."""
    from qkv.tracing.views.traces import Trace
    from qkv.tracing.views.word_map import view

    trace = Trace.load(file)
    for part in trace.parts:
        tokens = trace.tokens(part)
        tokens.words, tokens.groups("tokens")
        view(trace, 0, 0, "characters", part=part)
        trace.steps(0, 0, query=0, part=part)
        trace.patterns(part=part).show()


def open_run(folder: Path, file: Path) -> None:
    """Read a run as `qkv generate`, `qkv train --resume` and `qkv see --watch` do; each may raise a Problem."""
    from qkv.i18n import Problem
    from qkv.train.run import resume

    run = folder / file.relative_to(folder).parts[0]
    problems = []
    for reader in (open_model, lambda run: resume(run).task.sample):
        try:
            reader(run)
        except Problem as problem:
            problems.append(problem)
    if problems:
        raise problems[0]


def open_shards(folder: Path, file: Path) -> None:
    """Resume a run of several processes with the damaged shard's hash in state.json; else the hash always fails."""
    from qkv.disk.run_folder import fingerprint
    from qkv.train.run import resume

    state = file.parents[1] / "state.json"
    good = state.read_bytes()
    listed = json.loads(good)
    if (name := f"{file.parent.name}/{file.name}") in listed["files"]:
        listed["files"][name] = fingerprint(file)
        state.write_text(json.dumps(listed))
    try:
        resumed = resume(folder / "fsdp")
    finally:
        state.write_bytes(good)
    for optimizer in resumed.optimizers:  # fails if a momentum is missing
        for parameter in resumed.model.parameters():
            parameter.grad = parameter.detach()
        optimizer.step()


def open_tokens(folder: Path, file: Path) -> None:
    """Read all tokens; a damaged file must not return wrong tokens."""
    from qkv.text import Dataset

    tokens = Dataset.open(folder / "tokens")
    for first in range(0, len(tokens), 1000):
        tokens[first : first + 1000]
    if file.suffix != ".json":
        assert bytes(tokens[:].tolist()) == (folder / "book.txt").read_bytes(), "other tokens"


def open_metrics(folder: Path, file: Path) -> None:
    """Resume metrics: every valid line is kept, and a warning names the others."""
    import warnings

    from qkv.disk.run_folder import read_metrics
    from qkv.i18n import Notice, Problem
    from qkv.train.loop import trim_metrics

    good = set((folder / "good.jsonl").read_bytes().splitlines())
    good_lines = [line for line in file.read_bytes().split(b"\n")[:-1] if line in good]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_lines = [line.encode() for _, line in read_metrics(file)]
        assert [line for line in read_lines if line in good] == good_lines, "good lines are lost"
        trim_metrics(file, 5)
        assert all(step <= 5 for step, _ in read_metrics(file)), "lines from beyond"
    for warning in caught:
        if isinstance(warning.message, Notice):
            raise Problem(warning.message.sentence, **warning.message.values)


def open_picture(folder: Path, file: Path) -> None:
    """Prepare a picture as `qkv caption` does."""
    from qkv.text import picture_tokens

    pixels = picture_tokens.downscale(picture_tokens.crop(picture_tokens.read(file)))
    assert len(picture_tokens.source(pixels, "zh")) == 1 + picture_tokens.ROWS * picture_tokens.COLUMNS


def open_chats(folder: Path, file: Path) -> None:
    """Read chats as `qkv train chat` does."""
    from qkv.text import Bytes
    from qkv.text.conversations import Chats, read_chats

    tokenizer = Bytes.make(special=["eos"])
    tokenizer.template = CHATML
    chats = Chats(read_chats(file), tokenizer, 64)
    chats.batch(0, 0, 2)


def open_texts(folder: Path, file: Path) -> None:
    """Read texts as `qkv train classify` and `qkv train translate` do."""
    from qkv.text import Bytes
    from qkv.text.labelled_texts import LabelledTexts, labels_of, read_labelled
    from qkv.text.pairs import Pairs, read_pairs, sift_pairs

    tokenizer = Bytes.make(special=["pad", "bos", "eos", "unk"])
    if file.name == "labels.tsv":
        texts = read_labelled(file)
        LabelledTexts(texts, labels_of(texts, file), tokenizer, 64).batch(0, 0, 2)
    else:
        sift_pairs(file)
        Pairs(read_pairs(file), tokenizer).batch(0, 0, 2)


def open_family(folder: Path, file: Path) -> None:
    """Load and use a model without a tokenizer."""
    from qkv.formats import model_files

    model, _ = model_files.load(file.parent)
    use_model(model)


# ── good examples ─────────────────────────────────────────────────────────────────────────────────────────────────────

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\\n{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\\n{% endif %}"
)
SMALL = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
LLAMA = SMALL | dict(num_key_value_heads=1, vocab_size=256)


def make_gguf(folder: Path) -> None:
    """Write GGUF files: two types of weights, three tokenizers, and architectures with their own settings."""
    from qkv.text.library_tokenizer import LETTERS
    from tests.formats.files import hf_model, write_gguf

    def pieces(writer: Any) -> None:
        for at, setting in enumerate(writer.kv_data):
            for key in [key for key in setting if key.startswith("tokenizer.ggml.")]:
                del writer.kv_data[at][key]
        writer.add_tokenizer_model("llama")
        tokens = [
            "<unk>",
            "<s>",
            "</s>",
            *(f"<0x{i:02X}>" for i in range(200)),
            "▁",
            "t",
            "h",
            "e",
            "th",
            "the",
            "▁the",
        ]
        tokens += [f"a{i}" for i in range(256 - len(tokens))]
        writer.add_token_list(tokens)
        writer.add_token_scores([float(-i) for i in range(256)])
        writer.add_token_types([2, 3, 3, *[6] * 200, *[1] * 53])

    model = hf_model("llama", **LLAMA)
    write_gguf(model, folder / "f32.gguf", "f32", tokens=LETTERS)
    write_gguf(model, folder / "q4_1.gguf", "q4_1", tokens=LETTERS)
    write_gguf(model, folder / "pieces.gguf", "f32", tokens=LETTERS, extra=pieces)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "▁the", "▁cat", "s", "▁,", *(f"w{i}" for i in range(247))]
    write_gguf(hf_model("bert", **SMALL, vocab_size=256), folder / "words.gguf", "f32", tokens=words)
    for name in ("gemma3_text", "phi3", "gpt_neox", "deepseek_v3"):
        write_gguf(hf_model(name, vocab_size=256, num_hidden_layers=2), folder / f"{name}.gguf", "f32", tokens=LETTERS)


def make_folders(folder: Path) -> None:
    """Write Hugging Face folders of three families."""
    from qkv.text import Bytes
    from tests.formats.files import hf_model

    models = {
        "llama": hf_model("llama", **LLAMA),
        "gpt2": hf_model("gpt2", vocab_size=256, n_embd=32, n_inner=32, n_layer=1, n_head=2),
        "bert": hf_model("bert", **SMALL, vocab_size=256),
    }
    for name, model in models.items():
        model.save_pretrained(folder / name)
        Bytes.make().save(folder / name)
    generation_config: dict[str, Any] = dict(
        do_sample=True, temperature=0.7, top_k=5, top_p=0.9, repetition_penalty=1.1
    )
    generation_config |= dict(
        min_length=2, min_new_tokens=1, no_repeat_ngram_size=2, suppress_tokens=[1], bad_words_ids=[[3, 4]]
    )
    generation_config |= dict(
        eos_token_id=[1, 2], forced_eos_token_id=2, exponential_decay_length_penalty=[2, 1.5], num_beams=1
    )
    (folder / "llama" / "generation_config.json").write_text(json.dumps(generation_config))


def make_families(folder: Path) -> None:
    """Write a Hugging Face folder of each family."""
    import torch

    from tests.formats.test_families import CASES, theirs

    for kind, name in {case.config.model_type: name for name, case in reversed(CASES.items())}.items():
        theirs(name, torch.float32).save_pretrained(folder / kind)


def make_adapters(folder: Path) -> None:
    """Write a LLaMA and a GPT-2 with an adapter each."""
    import torch

    from qkv import Config, Transformer
    from qkv.formats import adapters
    from qkv.formats.hf_export import export
    from qkv.text import Bytes

    shape: dict[str, Any] = dict(vocab=256, width=32, n_layer=1, n_head=2)
    gpt2 = dict(position="learned", norm="layer", bias=True, feed_forward="gelu-tanh")
    for name, config in (("llama", Config(**shape)), ("gpt2", Config(**shape, **gpt2))):
        torch.manual_seed(0)
        model = Transformer(config).eval()
        export(model, Bytes.make(), folder / f"{name}-base")
        adapters.adapt(model, 2, parts="all", base=str(folder / f"{name}-base"))
        (folder / name).mkdir()
        for file, content in adapters.adapter_files(model).items():
            (folder / name / file).write_bytes(content)


def make_chats(folder: Path) -> None:
    """Write two chats, one with extra fields in its messages."""
    chats = [
        [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "你好"}],
        [{"role": "assistant", "content": "Yes", "tool_calls": [{"name": "f", "arguments": {"x": [1, 2]}}]}],
    ]
    lines = [json.dumps({"messages": messages}) + "\n" for messages in chats]
    (folder / "chats.jsonl").write_text("".join(lines), encoding="utf-8")


def make_texts(folder: Path) -> None:
    """Write labelled texts, and pairs."""
    (folder / "labels.tsv").write_text("很好看\tgood\nbad film\tbad\nfine\tgood\n", encoding="utf-8")
    (folder / "pairs.tsv").write_text("good\t好\nday\t日\nthe cat\t猫\n", encoding="utf-8")


def make_shards(folder: Path) -> None:
    """Write a model in several files."""
    from qkv.text import Bytes
    from tests.formats.files import hf_model

    hf_model("llama", **LLAMA).save_pretrained(folder, max_shard_size="20KB")
    Bytes.make().save(folder)
    shards = sorted(folder.glob("*-of-*.safetensors"))
    assert len(shards) > 2, shards
    shards[0].rename(folder / "first.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(index.read_text().replace(shards[0].name, "first.safetensors"))


def make_pieces(folder: Path) -> None:
    """Train SentencePiece models: unigram and BPE, the latter with byte fallback."""
    from tests.text.test_imported_tokenizers import train_pieces

    train_pieces(folder, "unigram.model", model_type="unigram")
    train_pieces(folder, "bpe.model", model_type="bpe", vocab_size=1300, byte_fallback=True)


def make_tokenizers(folder: Path) -> None:
    """Write tokenizers of the kinds in Hugging Face folders, new and old."""
    from qkv.text import imported_tokenizers, load, train_tokenizer
    from tests.text.test_imported_tokenizers import CHATML, CORPUS, train_pieces

    more = {
        "tokenizer_config.json": {
            "eos_token": "</s>",
            "bos_token": {"content": "<s>", "special": True},
            "chat_template": CHATML,
            "additional_special_tokens": ["<s>"],
            "added_tokens_decoder": {"0": {"content": "<unk>", "special": True}},
            "add_bos_token": True,
            "extra_ids": 3,
            "tokenizer_class": "T5Tokenizer",
        },
        "special_tokens_map.json": {"unk_token": "<unk>", "pad_token": "</s>"},
        "generation_config.json": {"eos_token_id": [1, 2], "bad_words_ids": [[3]], "suppress_tokens": [1]},
        "added_tokens.json": {"<unk>": 0},
        "config.json": {"model_type": "t5", "eos_token_id": 1, "decoder_start_token_id": 0},
    }
    for name in ("bpe", "unigram", "words", "old-pieces", "old-bpe", "old-words"):
        (folder / name).mkdir()
        for file, content in more.items():
            (folder / name / file).write_text(json.dumps(content))
    train_tokenizer("bpe", CORPUS, vocab=400).save(folder / "bpe")
    model, _ = train_pieces(folder / "old-pieces", "spiece.model", model_type="unigram")
    imported_tokenizers.from_sentencepiece(model).save(folder / "unigram")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", ",", *"helowrd", "##l", "##o"]
    (folder / "old-words" / "vocab.txt").write_text("\n".join(words) + "\n")
    for name in ("old-words", "old-bpe"):
        (folder / name / "tokenizer_config.json").write_text("{}")
        (folder / name / "config.json").write_text("{}")
        (folder / name / "added_tokens.json").write_text("{}")
    load(folder / "old-words").save(folder / "words")
    saved = json.loads((folder / "bpe" / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    (folder / "old-bpe" / "vocab.json").write_text(json.dumps(saved["vocab"]))
    (folder / "old-bpe" / "merges.txt").write_text(
        "#version: 0.2\n" + "\n".join(" ".join(merge) for merge in saved["merges"]) + "\n", encoding="utf-8"
    )


def make_ctranslate2(folder: Path) -> None:
    """Write a translator in the format of Argos."""
    from tests.formats.files import hf_model, write_ctranslate2
    from tests.text.test_imported_tokenizers import train_pieces

    write_ctranslate2(hf_model("marian", encoder_layers=1, decoder_layers=1), folder / "model", "int8")
    train_pieces(folder, "sentencepiece.model", model_type="unigram")


def make_onnx(folder: Path) -> None:
    """Write an ONNX model as published for browsers, in int8 and float32."""
    from qkv.text import Bytes
    from tests.formats.files import hf_model, write_onnx

    for kind in ("int8", "f32"):
        write_onnx(hf_model("llama", **LLAMA), folder / kind, kind)
        Bytes.make().save(folder / kind)


def make_traces(folder: Path) -> None:
    """Write the trace of a decoder with a window and a bias, and copy the smallest one that ships."""
    from qkv import Config, Transformer
    from qkv.tracing.record.recorder import trace

    decoder = Config(vocab=11, width=16, n_layer=2, n_head=4, n_kv_head=2, position="alibi", window=3)
    trace(Transformer(decoder), [[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1]]).save(folder / "decoder.safetensors")
    shipped = Path(__import__("qkv").__file__).parent / "demo" / "traces"
    smallest = min(shipped.glob("*.safetensors"), key=lambda file: file.stat().st_size)
    shutil.copy(smallest, folder / "shipped.safetensors")


def make_pictures(folder: Path) -> None:
    """Write a picture in several formats: RGB, palette, grey, 16 bits, transparent."""
    import numpy as np
    from PIL import Image

    shades = np.full((24, 20), 255, np.uint8)
    shades[3:20, 8:12] = 10
    grey = Image.fromarray(shades)
    for name, image in (
        ("grey.png", grey),
        ("colours.png", grey.convert("RGB")),
        ("clear.png", grey.convert("RGBA")),
        ("palette.png", grey.convert("P")),
        ("deep.png", Image.fromarray(shades.astype(np.uint16) * 257)),
        *((f"photo.{ending}", grey.convert("RGB")) for ending in ("jpg", "gif", "bmp", "webp", "tiff")),
    ):
        image.save(folder / name)


def make_runs(folder: Path) -> None:
    """Train a GPT and a translator for two steps."""
    from qkv.train.run import start

    (folder / "book.txt").write_text("the cat sat on the mat, 我爱北京\n" * 60, encoding="utf-8")
    (folder / "pairs.tsv").write_text("".join(f"cat {i}\t猫 {i}\n" for i in range(30)), encoding="utf-8")
    small = dict(
        steps=2, n_layer=1, width=16, n_head=2, context=8, batch=2, eval_every=1, eval_batches=1, compile=False
    )
    start("lm", out=folder / "lm", source=str(folder / "book.txt"), changes=small, watch="the cat").train()
    start("translate", out=folder / "translate", pairs=str(folder / "pairs.tsv"), changes=small).train()


FSDP = "fsdp/checkpoints/000004/shards"


def make_run_shards(folder: Path) -> None:
    """Copy the run of two processes, with a foreign file in shards/."""
    shutil.copytree(Path(__file__).parents[1] / "fixtures" / "2026-11" / "fsdp", folder / "fsdp")
    shards = sorted((folder / FSDP).iterdir())
    for number, shard in enumerate(shards, 1):
        assert shard.name == f"shard-{number:05d}-model-00001-of-00001.safetensors"
    shutil.copy(shards[0], folder / FSDP / "zz.safetensors")


def make_tokens(folder: Path) -> None:
    """Prepare a text of several blocks in two shards."""
    from qkv.text import Bytes, prepare

    (folder / "book.txt").write_bytes(b"".join(b"%d: the cat sat on the mat\n" % i for i in range(7000)))
    prepare(folder / "book.txt", Bytes.make(), folder / "tokens")


def make_metrics(folder: Path) -> None:
    """Write the metrics of a short run."""
    lines = [{"step": i, "loss": 1 / i, "tokens_per_second": 9e5, "seconds": i * 0.1} for i in range(1, 9)]
    for name in ("metrics.jsonl", "good.jsonl"):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def run_files() -> dict[str, Damage]:
    files: dict[str, Damage] = {}
    for run in ("lm", "translate"):
        for step in (1, 2):
            checkpoint = f"{run}/checkpoints/{step:06d}"
            files[f"{checkpoint}/state.json"] = damage.as_json
            files[f"{checkpoint}/model.safetensors"] = damage.as_safetensors
        files |= {
            f"{run}/{name}": damage.as_json for name in ("config.json", "tokenizer.json", "tokenizer_config.json")
        }
    return files | {
        "lm/tokens/index.json": damage.as_json,
        "lm/tokens/train-00000.bin": damage.as_bytes,
        "lm/checkpoints/000002/optimizer.safetensors": damage.as_safetensors,
        "translate/pairs.tsv": damage.as_lines,
    }


def open_folder(folder: Path, file: Path) -> None:
    """Load and use the model in the folder of the damaged file."""
    open_model(file.parent)


TOKENIZER_CONFIGS = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "added_tokens.json",
    "config.json",
)
READERS: dict[str, Reader] = {
    "gguf": Reader(
        make_gguf,
        lambda folder, file: open_model(file),
        dict.fromkeys(
            [
                f"{name}.gguf"
                for name in ("f32", "q4_1", "pieces", "words", "gemma3_text", "phi3", "gpt_neox", "deepseek_v3")
            ],
            damage.as_gguf,
        ),
    ),
    "config": Reader(
        make_folders,
        open_folder,
        {
            **{f"{name}/config.json": damage.as_json for name in ("llama", "gpt2", "bert")},
            "llama/generation_config.json": damage.as_json,
        },
    ),
    "families": Reader(
        make_families,
        open_family,
        {f"{kind}/config.json": damage.as_json for family in FAMILIES for kind in family.types},
    ),
    "lora": Reader(
        make_adapters,
        open_folder,
        {
            **{f"{name}/adapter_config.json": damage.as_json for name in ("llama", "gpt2")},
            **{f"{name}/adapter_model.safetensors": damage.as_tensors for name in ("llama", "gpt2")},
        },
    ),
    "chats": Reader(make_chats, open_chats, {"chats.jsonl": damage.as_json_lines}),
    "texts": Reader(make_texts, open_texts, {"labels.tsv": damage.as_lines, "pairs.tsv": damage.as_lines}),
    "safetensors": Reader(
        make_folders,
        open_folder,
        {f"{name}/model.safetensors": damage.as_safetensors for name in ("llama", "gpt2", "bert")},
    ),
    "index": Reader(
        make_shards,
        open_folder,
        {"model.safetensors.index.json": damage.as_json, "first.safetensors": damage.as_safetensors},
    ),
    "tokenizer": Reader(
        make_tokenizers,
        open_tokenizer,
        {
            **{f"{name}/tokenizer.json": damage.as_json for name in ("bpe", "unigram", "words")},
            **{f"{name}/{file}": damage.as_json for name in ("unigram", "old-pieces") for file in TOKENIZER_CONFIGS},
            "bpe/tokenizer_config.json": damage.as_json,
            "old-pieces/spiece.model": damage.as_protobuf,
            "old-bpe/vocab.json": damage.as_json,
            "old-bpe/merges.txt": damage.as_lines,
            "old-bpe/added_tokens.json": damage.as_json,
            "old-words/vocab.txt": damage.as_lines,
        },
    ),
    "ctranslate2": Reader(
        make_ctranslate2,
        lambda folder, file: open_model(folder),
        {
            "model/model.bin": damage.as_bytes,
            "model/shared_vocabulary.json": damage.as_json,
            "sentencepiece.model": damage.as_protobuf,
        },
    ),
    "onnx": Reader(
        make_onnx,
        lambda folder, file: open_model(file.parent.parent),
        {"int8/onnx/model_quantized.onnx": damage.as_messages, "f32/onnx/model.onnx": damage.as_messages},
    ),
    "sentencepiece": Reader(
        make_pieces, open_pieces, {"unigram.model": damage.as_protobuf, "bpe.model": damage.as_protobuf}
    ),
    "trace": Reader(
        make_traces,
        open_trace,
        dict.fromkeys(["decoder.safetensors", "shipped.safetensors"], partial(damage.as_safetensors, inner="qkv")),
    ),
    "picture": Reader(
        make_pictures,
        open_picture,
        {
            **dict.fromkeys([f"{name}.png" for name in ("grey", "colours", "clear", "palette", "deep")], damage.as_png),
            **dict.fromkeys([f"photo.{name}" for name in ("jpg", "gif", "bmp", "webp", "tiff")], damage.as_bytes),
        },
    ),
    "run": Reader(make_runs, open_run, run_files()),
    "run-shards": Reader(
        make_run_shards,
        open_shards,
        {
            **dict.fromkeys(
                [f"{FSDP}/shard-{number:05d}-model-00001-of-00001.safetensors" for number in (1, 2)],
                partial(damage.as_safetensors, inner="DCP_SHARDING_INFO"),
            ),
            f"{FSDP}/zz.safetensors": damage.as_safetensors,
        },
    ),
    "tokens": Reader(
        make_tokens,
        open_tokens,
        {
            "tokens/index.json": damage.as_json,
            **dict.fromkeys([f"tokens/{split}-00000.bin" for split in ("train", "validation")], damage.as_bytes),
            "tokens/train-00000.bin.sha256": damage.as_lines,
        },
    ),
    "metrics": Reader(make_metrics, open_metrics, {"metrics.jsonl": damage.as_lines}),
}
