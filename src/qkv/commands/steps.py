"""qkv steps: attention computed step by step, on a sentence or on one's own matrices."""

import argparse
import json
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..attention import masks
from ..attention.steps import Array, Steps, from_qkv, sinusoid, steps
from ..attention.tiles import tiles
from ..words import Problem, both, say

EXAMPLES = [
    'qkv steps "我 爱 北京"',
    'qkv steps "The cat sat on the mat" --mask causal --word mat',
    "qkv steps 今天天气真好，我想出去玩 --word 玩 --heads 2",
    'qkv steps "I love Beijing" --memory "我 爱 北京"',
    'qkv steps "a b [PAD]" --mask padding --tiles 2',
    "qkv steps --file matrices.json --no-scale",
]
PADDING = "[PAD]"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    add(
        "text",
        nargs="?",
        help=both(
            "the words, with spaces between; Chinese without spaces is cut into characters",
            "一句话；词之间用空格，没有空格的中文按字切开",
        ),
    )
    add(
        "--file",
        metavar="FILE",
        help=both(
            "your own matrices, .json or .npz: q k v, or x w_q w_k w_v",
            "自己的矩阵，.json 或 .npz：q k v，或 x w_q w_k w_v",
        ),
    )
    add("--heads", type=int, default=1, metavar="H", help=both("number of heads (1)", "头数（1）"))
    add("--head", type=int, default=0, metavar="I", help=both("which head to show, from 0", "显示哪个头，从 0 数起"))
    add(
        "--mask",
        metavar="MASK",
        help=both(
            f"causal, padding ({PADDING} words are hidden), window:3, prefix:2, …; see qkv masks",
            f"causal、padding（隐藏 {PADDING}）、window:3、prefix:2 等，见 qkv masks",
        ),
    )
    add("--no-scale", action="store_true", help=both("leave out the division by √d", "不除以 √d"))
    add("--dim", type=int, metavar="D", help=both("width of the word vectors (4 per head)", "词向量的宽度（每个头 4）"))
    add("--position", choices=["sinusoidal"], help=both("add positions to the word vectors", "给词向量加上位置编码"))
    add(
        "--memory",
        metavar="TEXT",
        help=both("look at this text instead (cross-attention)", "改为看这段文本（交叉注意力）"),
    )
    add(
        "--word",
        metavar="WORD",
        help=both("write out this word's row: Σ weight × V, term by term", "写出这个词的一行：Σ 权重 × V，逐项列出"),
    )
    add(
        "--tiles",
        type=int,
        metavar="B",
        help=both(
            "also B keys at a time, as flash attention does", "再用每次 B 个键的办法算一遍（flash attention 的原理）"
        ),
    )
    add("--seed", type=int, default=0, metavar="S", help=both("draws the vectors (0)", "随机数种子（0）"))
    add("--json", action="store_true", help=both("every number as JSON", "以 JSON 输出所有的数"))


def run(options: argparse.Namespace) -> None:
    """Compute, then print the steps, the word's row and the tiles that were asked for."""
    if (options.text is None) == (options.file is None):
        raise Problem("problem.text.or.file")
    if options.heads < 1:
        raise Problem("problem.number", option="--heads", value=options.heads, wanted="1, 2, 3, …")
    preamble, done = _from_file(options) if options.file else _from_text(options)
    heads = done.scores.shape[-3] if done.headed else 1
    if not 0 <= options.head < heads:
        raise Problem("problem.number", option="--head", value=options.head, wanted=f"0 … {heads - 1}")
    if options.json:
        print(json.dumps({"made": preamble, **done.to_dict()}, ensure_ascii=False, allow_nan=False))
        return
    rows = [] if options.word is None else _find(done, options.word)
    if options.tiles is not None and options.tiles < 1:
        raise Problem("problem.number", option="--tiles", value=options.tiles, wanted="1, 2, 3, …")
    print("\n".join(preamble) + "\n\n" + done.show(head=options.head))
    for row in rows:
        print("\n" + done.word(row, head=options.head))
    if options.tiles is not None:
        print("\n" + _tiles(done, options, rows[-1] if rows else -1))


def tokens(text: str) -> list[str]:
    """Words between spaces, punctuation apart; a text without spaces that has 汉字 is cut into characters.

    >>> tokens("The cat sat."), tokens("我 爱 北京"), tokens("我爱GPT！")
    (['The', 'cat', 'sat', '.'], ['我', '爱', '北京'], ['我', '爱', 'GPT', '！'])
    """
    special = r"\[[A-Z]+\]"
    if re.search(r"\s", text.strip()):
        return re.findall(rf"{special}|\w+(?:['’\-]\w+)*|[^\w\s]", text)
    return re.findall(rf"{special}|[\u3400-\u9fff\u3040-\u30ff]|[^\W\u3400-\u9fff\u3040-\u30ff]+|[^\w\s]", text)


def word_vectors(words: list[str], dim: int, seed: int) -> Array:
    """A vector per word drawn from (seed, word), so that the same word always has the same one: (N, dim)."""
    keys = [zlib.crc32(word.encode()) for word in words]
    return np.stack([np.random.default_rng([seed, key]).standard_normal(dim) for key in keys])


def _from_text(options: argparse.Namespace) -> tuple[list[str], Steps]:
    words = tokens(options.text)
    memory = None if options.memory is None else tokens(options.memory)
    if not words or memory == []:
        raise Problem("problem.empty")
    dim = 4 * options.heads if options.dim is None else options.dim
    if not 1 <= dim <= 4096 or options.seed < 0:
        option, value = ("--dim", dim) if options.seed >= 0 else ("--seed", options.seed)
        raise Problem(
            "problem.number", option=option, value=value, wanted="1 … 4096" if option == "--dim" else "0, 1, 2, …"
        )
    x = word_vectors(words, dim, options.seed)
    source = None if memory is None else word_vectors(memory, dim, options.seed)
    lines = [say("steps.drawn", dim=dim, seed=options.seed)]
    if options.position:
        x = x + sinusoid(len(words), dim)
        source = None if memory is None or source is None else source + sinusoid(len(memory), dim)
        lines.append(say("steps.position"))
    elif len(set(words)) < len(words):
        lines.append(say("steps.same"))
    draw = np.random.default_rng([options.seed, 0])
    w_q, w_k, w_v, w_o = draw.standard_normal((4, dim, dim)) / np.sqrt(dim)
    done = steps(
        x,
        w_q,
        w_k,
        w_v,
        w_o if options.heads > 1 else None,
        n_head=options.heads,
        mask=None if options.mask is None else masks.parse(options.mask, [key != PADDING for key in memory or words]),
        scale=1.0 if options.no_scale else None,
        memory=source,
        names=words,
        memory_names=memory,
    )
    return lines, done


def _from_file(options: argparse.Namespace) -> tuple[list[str], Steps]:
    inside = {"--dim": options.dim, "--position": options.position, "--memory": options.memory}
    for option, value in inside.items():
        if value is not None:
            raise Problem("problem.only.text", option=option, inside="x, w_q, w_k, w_v, memory")
    tables = read_matrices(Path(options.file))
    mask = None if options.mask is None else masks.parse(options.mask)
    if "mask" in tables:
        given = masks.dense(np.asarray(tables["mask"]))
        mask = given if mask is None else mask & given
    scale = 1.0 if options.no_scale else None
    names: dict[str, Any] = {"names": _names(tables.get("names")), "memory_names": _names(tables.get("memory_names"))}
    if "q" in tables:
        if options.heads != 1:
            raise Problem("problem.only.text", option="--heads", inside="q: (1, heads, N, D)")
        done = from_qkv(tables["q"], tables["k"], tables["v"], mask, scale, **names)
    else:
        weights: dict[str, Any] = {key: tables.get(key) for key in ("w_q", "w_k", "w_v", "w_o", "memory")}
        done = steps(tables["x"], **weights, n_head=options.heads, mask=mask, scale=scale, **names)
    shapes = ", ".join(f"{key} {np.shape(tables[key])}" for key in tables if not key.endswith("names"))
    return [say("steps.from.file", file=options.file, what=shapes)], done


def read_matrices(path: Path) -> dict[str, Any]:
    """The matrices of a .json or .npz file; nothing in it is ever executed."""
    if not path.is_file():
        raise Problem("problem.file.missing", file=path)
    try:
        if path.suffix == ".json":
            tables = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(tables, dict):
                raise ValueError('expected {"q": [[…]], "k": [[…]], "v": [[…]]}')
        elif path.suffix == ".npz":
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                tables = {key: archive[key] for key in archive.files}
        else:
            raise Problem("problem.file.kind", file=path)
    except Problem:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, RecursionError) as error:
        raise Problem("problem.file.broken", file=path, reason=str(error).split("\n")[0]) from None
    if not ({"q", "k", "v"} <= tables.keys() or "x" in tables):
        raise Problem("problem.file.keys", file=path, keys=", ".join(tables) or "{}")
    return tables


def _names(given: Any) -> list[str] | None:
    return None if given is None else [str(name) for name in given]


def _find(done: Steps, word: str) -> list[int]:
    names = done.queries or tuple(f"q{i}" for i in range(done.scores.shape[-2]))
    rows = [i for i, name in enumerate(names) if name == word]
    if not rows:
        raise Problem("problem.word", word=word, words=", ".join(dict.fromkeys(names)))
    return rows


def _tiles(done: Steps, options: argparse.Namespace, row: int) -> str:
    at = (0,) * done.batched + (options.head,) * done.headed
    per_kv = done.q.shape[-3] // done.k.shape[-3] if done.headed else 1
    at_kv = (0,) * done.batched + (options.head // per_kv,) * done.headed
    allowed = ~np.isneginf(done.masked[at])
    again = tiles(done.q[at], done.k[at_kv], done.v[at_kv], options.tiles, allowed, done.scale)
    names = done.queries or tuple(f"q{i}" for i in range(len(again.output)))
    return again.show(row, name=names[row])
