"""qkv steps: attention computed step by step, on a sentence or on matrices from a file."""

import argparse
import json
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ..attention import masks
from ..attention.oracle import Array, Steps, from_qkv, sinusoid, steps
from ..attention.tiles import Tiles, tiles
from ..i18n import Problem, _, all_of, say, unknown
from ..tracing.views.token_labels import PARTS, Tokens
from .matrix_input import mask_of, names_of, read_matrices, shape_of
from .model_options import model_arguments, open_model
from .option_checks import check_range, conflict, explicit_options
from .output_path import FIGURES, check_output
from .text_input import PIPE, check_text, hint_at_file, read_whole

EXAMPLES = [
    'qkv steps "我 爱 北京"',
    'qkv steps "The cat sat on the mat" --mask causal --word mat',
    "qkv steps 今天天气真好，我想出去玩 --word 玩 --heads 2",
    'qkv steps "I love Beijing" --memory "我 爱 北京"',
    'qkv steps "a b [PAD]" --mask padding --tiles 2',
    "qkv steps --file examples/matrices.json --no-scale",
    "qkv steps 我爱北京 --mask causal --png steps.png",
    'qkv steps "我 爱 北京" --mixer retention',
    "qkv steps 我爱北京，我更爱吃 --mixer delta --tiles 3 --word 吃",
    'qkv steps "The cat sat on the mat because it was tired" --model smollm2 --layer 13 --head 8 --word it',
]
PADDING = "[PAD]"
MAX_DIM = 4096
DEFAULTS = {"heads": 1, "head": 0}
MATRICES = (".json", ".npz")  # other files hold text

POSITIONS = {
    "rotary": _("q and k are already rotated by their positions (RoPE)."),
    "alibi": _("Scores are lowered in proportion to the distance (ALiBi)."),
    "relative": _("A learned number per distance is added to the scores (relative positions)."),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "text",
        nargs="?",
        help=say(
            "the words, with spaces between; Chinese without spaces is cut into characters; - takes them from a pipe"
        ),
    )
    add("--text", dest="text_file", metavar="FILE", help=say("a text from a file, or a data set (see qkv data)"))
    add(
        "--file",
        metavar="FILE",
        help=say(
            "your own matrices, .json or .npz: q k v, or x w_q w_k w_v (see examples/matrices.json); any other "
            "file is text"
        ),
    )
    model_arguments(parser)
    add("--layer", type=int, metavar="L", help=say("which layer of the model, from 0 (0)"))
    add("--part", choices=["encoder", "decoder", "cross"], help=say("which part of an encoder-decoder"))
    add("--heads", type=int, default=1, metavar="H", help=say("number of heads (1)"))
    add("--head", type=int, default=0, metavar="I", help=say("which head to show, from 0"))
    mask_help = say(
        "causal, padding ({PADDING} words are hidden), window:3, prefix:2, …; see qkv masks", PADDING=PADDING
    )
    add("--mask", metavar="MASK", help=mask_help)
    add("--no-scale", action="store_true", help=say("leave out the division by √d"))
    add("--dim", type=int, metavar="D", help=say("width of the word vectors (4 per head)"))
    add("--position", choices=["sinusoidal"], help=say("add positions to the word vectors"))
    add("--memory", metavar="TEXT", help=say("attend to this text instead (cross-attention)"))
    add("--word", metavar="WORD", help=say("write out this word's row: Σ weight × V, term by term"))
    add(
        "--tiles",
        type=int,
        metavar="B",
        help=say("also B keys at a time, as flash attention does; for a mixer, the tokens of a chunk (2)"),
    )
    add("--mixer", metavar="WORD", help=say("a replacement of attention: retention, mamba2 or delta"))
    add("--decay", type=float, metavar="G", help=say("γ of retention, above 0 and up to 1 (31/32)"))
    add("--seed", type=int, metavar="S", help=say("draws the vectors (0)"))
    add("--png", type=Path, metavar="FILE", help=say("draw it: .png, .svg or .pdf"))
    add("--json", action="store_true", help=say("every number as JSON"))


def run(options: argparse.Namespace) -> None:
    """Compute and print the steps, the word's row and the tiles."""
    if options.text_file is not None:
        options.text = read_whole(options.text or options.file, options.text_file, EXAMPLES[0])
    elif options.text not in (None, PIPE):
        hint_at_file(options.text)
    if (options.text is None) == (options.file is None):
        raise Problem('give a text or --file, one of the two, as in  qkv steps "我 爱 北京"')
    if options.png is not None:
        check_output(options.png, FIGURES)
    if options.json and options.png is not None:
        raise conflict("--json", "--png")
    if options.text == PIPE or (options.file is not None and Path(options.file).suffix.lower() not in MATRICES):
        options.text, options.file = read_whole(options.text, options.file, EXAMPLES[0]), None
    check_range("--heads", options.heads, 1)
    check_range("--tiles", options.tiles, 1)
    if options.mixer is not None:
        _mixer(options)
        return
    if options.decay is not None:
        raise Problem("{option} goes with {other}", option="--decay", other="--mixer retention")
    if options.model is not None:
        preamble, result, names = _from_model(options)
        options.head = 0  # the trace has only this one
    else:
        for option in explicit_options(options, "layer part"):
            raise Problem("{option} goes with --model", option=option)
        preamble, result = _from_text(options) if options.file is None else _from_file(options)
        names = _word_tokens(_query_names(result))
    heads = result.scores.shape[-3] if result.headed else 1
    check_range("--head", options.head, 0, heads - 1)
    rows = [] if options.word is None else names.places(options.word)
    blocks = None if options.tiles is None else _tiles(result, options)
    _print(options, preamble, result, rows, blocks, head=options.head)


def _print(
    options: argparse.Namespace,
    preamble: list[str],
    result: Any,
    rows: list[int],
    blocks: Tiles | None = None,
    **head: int,
) -> None:
    """Print the steps of an attention `head` or of a mixer, a word's rows and the tiles, as text or JSON."""
    if options.json:
        content = {"made": preamble, **result.to_dict()}
        if rows:
            terms = [{"row": row, "terms": result.terms(row, **head).tolist()} for row in rows]
            content["word"] = {"word": options.word, **head, "rows": terms}
        if blocks is not None:
            content["tiles"] = {**head, **blocks.to_dict()}
        print(json.dumps(content, ensure_ascii=False, allow_nan=False))
        return
    from ..draw import mixer_derivation

    print("\n".join(preamble) + "\n\n" + result.show(**head))
    for row in rows:
        print("\n" + (result.word(row, **head) if head else mixer_derivation.word(result, row)))
    if blocks is not None:
        row = rows[-1] if rows else -1
        print("\n" + blocks.show(row, name=_query_names(result)[row]))
    if options.png is not None:
        from ..draw import plots

        figure: Callable[..., object] = plots.steps if head else mixer_derivation.figure
        figure(result, path=options.png, **head)
        print("\n" + say("wrote {path}", path=options.png))


def _mixer(options: argparse.Namespace) -> None:
    """Run retention, Mamba-2 or the delta rule on a text."""
    from ..mixers.stepwise import KINDS, random_mixing

    if options.mixer not in KINDS:
        raise unknown("--mixer", options.mixer, KINDS)
    decay = "" if options.mixer == "retention" else "decay"
    names = f"file mask position memory model layer part no_scale heads {decay} head"
    for option in explicit_options(options, names, DEFAULTS):
        raise conflict(option, f"--mixer {options.mixer}")
    if options.decay is not None and not 0 < options.decay <= 1:
        raise Problem(
            "{option} is {value}: give {wanted}", option="--decay", value=options.decay, wanted="0 < γ ≤ 1, 0.9"
        )
    words, dim, x = _vectors(options)
    result = random_mixing(
        options.mixer, x, options.seed or 0, gamma=options.decay, chunk=options.tiles or 2, names=words
    )
    rows = [] if options.word is None else _word_tokens(words).places(options.word)
    preamble = [
        say(
            "The word vectors (width {dim}) and the matrices are drawn at random from seed {seed}: every sum below is "
            "true, but the meaning is not learned. One head; the convolution, positions, gate and norm around it are left "
            "out.",
            dim=dim,
            seed=options.seed or 0,
        )
    ]
    _print(options, preamble, result, rows)


def tokens(text: str) -> list[str]:
    """Split a text into words and punctuation; without spaces, 汉字 are split into characters.

    Combining marks stay with their letter (the text is normalized to NFC first).

    >>> tokens("The cat sat."), tokens("我 爱 北京"), tokens("我爱GPT！")
    (['The', 'cat', 'sat', '.'], ['我', '爱', '北京'], ['我', '爱', 'GPT', '！'])
    >>> tokens("दिल्ली"), tokens("cafe\u0301 don't")
    (['दिल्ली'], ['café', "don't"])
    """
    text = unicodedata.normalize("NFC", text).strip()
    by_character = re.search(r"\s", text) is None
    parts: list[str] = []
    for i, piece in enumerate(re.split(r"(\[[A-Z]+\])", text)):
        if i % 2:  # [PAD] and similar
            parts.append(piece)
            continue
        kinds = "".join(_character_class(c, by_character) for c in piece)
        spans = re.finditer(r"[wm]+(?:jw[wm]*)*|[^s]m*", kinds)  # one letter per character: same positions
        parts += [piece[span.start() : span.end()] for span in spans]
    return parts


def _character_class(c: str, by_character: bool) -> str:
    """Return w for word characters, m for combining marks, j for joiners, c for a single 汉字, s for space, else p."""
    if unicodedata.category(c)[0] == "M" or c in "\u200c\u200d":
        return "m"
    if c.isspace():
        return "s"
    if c in "'’-":
        return "j"
    if by_character and re.match("[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]", c):
        return "c"
    return "w" if c.isalnum() or c == "_" else "p"


def word_vectors(words: list[str], dim: int, seed: int) -> Array:
    """Return a random vector per word, seeded by (seed, word), so equal words have equal vectors: (N, dim)."""
    keys = [zlib.crc32(word.encode()) for word in words]
    return np.stack([np.random.default_rng([seed, key]).standard_normal(dim) for key in keys])


def _tokens_of(text: str) -> list[str]:
    check_text(text)
    if words := tokens(text):
        return words
    raise Problem('the text is empty: give at least one word, as in  qkv steps "我 爱 北京"')


def _vectors(options: argparse.Namespace) -> tuple[list[str], int, Array]:
    """Return the words of the text, the width of their vectors, and the vectors."""
    words = _tokens_of(options.text)
    if options.dim is None:
        check_range("--heads", options.heads, 1, MAX_DIM // 4)
    dim = 4 * options.heads if options.dim is None else options.dim
    seed = options.seed or 0
    check_range("--dim", dim, 1, MAX_DIM)
    check_range("--seed", seed, 0)
    return words, dim, word_vectors(words, dim, seed)


def _from_text(options: argparse.Namespace) -> tuple[list[str], Steps]:
    words, dim, x = _vectors(options)
    seed, memory = options.seed or 0, None if options.memory is None else _tokens_of(options.memory)
    source = None if memory is None else word_vectors(memory, dim, seed)
    matrices = ["W_q", "W_k", "W_v", *(["W_o"] if options.heads > 1 else [])]
    preamble = [
        say(
            "The word vectors (width {dim}) and {matrices} are drawn at random from seed {seed}: every sum below "
            "is true, but the meaning is not learned.",
            dim=dim,
            seed=seed,
            matrices=all_of(matrices),
        )
    ]
    if options.position:
        x = x + sinusoid(len(words), dim)
        source = None if memory is None or source is None else source + sinusoid(len(memory), dim)
        preamble.append(
            say("Sinusoidal positions were added to the word vectors, so the same word differs from place to place.")
        )
    elif len(set(words)) < len(words):
        preamble.append(say("The same word always gets the same vector."))
    draw = np.random.default_rng([seed, 0])
    w_q, w_k, w_v, w_o = draw.standard_normal((4, dim, dim)) / np.sqrt(dim)
    mask = None if options.mask is None else masks.parse(options.mask, [key != PADDING for key in memory or words])
    scale, w_o = 1.0 if options.no_scale else None, w_o if options.heads > 1 else None
    names: dict[str, Any] = {"names": words, "memory_names": memory}
    return preamble, steps(x, w_q, w_k, w_v, w_o, n_head=options.heads, mask=mask, scale=scale, memory=source, **names)


def _from_model(options: argparse.Namespace) -> tuple[list[str], Steps, Tokens]:
    for option in explicit_options(options, "file mask dim position memory seed no_scale heads", DEFAULTS):
        raise Problem("{option} doesn't go with --model, whose numbers are all its own: leave it out", option=option)
    model, tokenizer = open_model(options.model, "steps", yes=options.yes)
    from ..tracing.record.recorder import trace

    recorded = trace(model, options.text, tokenizer, name=options.model)
    part = options.part or recorded.parts[0]
    layer = recorded.layers(part)[0] if options.layer is None else options.layer
    result = recorded.steps(layer, options.head, part=part)
    assert isinstance(result, Steps)  # of attention
    preamble = [
        say(
            "{part} layer {layer}, head {head} of {model} (both count from 0): its own q, k and v on this text, every number learned, "
            "not drawn.",
            part=say(PARTS[part]),
            layer=layer,
            head=options.head,
            model=options.model,
        )
    ]
    heads, groups = (tensor.shape[1] for tensor in (recorded.call(layer, part).q, recorded.call(layer, part).k))
    if groups < heads:
        sentence = _("Heads share keys and values here: head {head} reads key/value head {kv} (of {groups}).")
        preamble.append(say(sentence, head=options.head, kv=options.head // (heads // groups), groups=groups))
    position = model.config.position
    if position in ("rotary", "relative", "alibi") and part != "cross":
        preamble.append(say(POSITIONS[position]))
    difference = f"{recorded.difference(layer, options.head, part=part):.1e}"
    sentence = _("The steps, in float64, differ from the model's own kernel by at most {difference}.")
    preamble.append(say(sentence, difference=difference))
    return preamble, result, recorded.tokens(part)


def _from_file(options: argparse.Namespace) -> tuple[list[str], Steps]:
    for option in explicit_options(options, "dim position memory"):
        raise _only_for_text(option, "x, w_q, w_k, w_v, memory")
    if options.seed is not None:
        raise Problem("--seed draws vectors for a text; with --file nothing is drawn: leave it out")
    tables = read_matrices(options.file)
    mask = None if options.mask is None else masks.parse(options.mask)
    if "mask" in tables:
        file_mask = masks.dense(mask_of(tables["mask"]))
        mask = file_mask if mask is None else mask & file_mask
    scale = 1.0 if options.no_scale else None
    names: dict[str, Any] = {name: names_of(name, tables.get(name)) for name in ("names", "memory_names")}
    for name in tables.keys() - {"mask", "names", "memory_names"}:
        if 0 in (shape := shape_of(tables[name])):
            raise Problem("{name} is {shape}: it needs at least one row and one column", name=name, shape=shape)
    if "q" in tables:
        if options.heads != 1:
            raise _only_for_text("--heads", "q: (1, heads, N, D)")
        result = from_qkv(tables["q"], tables["k"], tables["v"], mask, scale, **names)
    else:
        weights: dict[str, Any] = {key: tables.get(key) for key in ("w_q", "w_k", "w_v", "w_o", "memory")}
        result = steps(tables["x"], **weights, n_head=options.heads, mask=mask, scale=scale, **names)
    shapes = ", ".join(f"{key} {shape_of(tables[key])}" for key in tables if not key.endswith("names"))
    return [say("Read from {file}: {what}.", file=options.file, what=shapes)], result


def _only_for_text(option: str, inside: str) -> Problem:
    return Problem(
        "{option} goes with a text, not with --file: put it into the file ({inside})", option=option, inside=inside
    )


def _query_names(result: Steps) -> tuple[str, ...]:
    return result.queries or tuple(f"q{i}" for i in range(result.scores.shape[-2]))


def _word_tokens(names: Iterable[str]) -> Tokens:
    """Return tokens that are a word each, so a blank precedes each."""
    return Tokens(tuple(f" {name}" for name in names))


def _tiles(result: Steps, options: argparse.Namespace) -> Tiles:
    at, at_kv = result.index(0, options.head), result.index_kv(0, options.head)
    allowed = ~np.isneginf(result.masked[at])
    return tiles(result.q[at], result.k[at_kv], result.v[at_kv], options.tiles, allowed, result.scale)
