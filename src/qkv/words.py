"""The sentences that screens show, in English and 简体中文.

Each key holds the pair (English, 中文); `say(key, lang, **values)` fills it in. Exceptions stay English.

>>> say("row.sum", "zh", low=1.0, high=1.0)
'每行之和：1 到 1。'
"""

import os
import sys
from typing import Any

LANGUAGES = ("en", "zh")


def language(asked: str | None = None) -> str:
    """The language to speak: what was asked for, else QKV_LANG, LC_ALL, LC_MESSAGES, LANG, else English."""
    if asked is not None:
        if asked.lower()[:2] not in LANGUAGES:
            raise ValueError(f"language {asked!r} is not one of {', '.join(LANGUAGES)}")
        return asked.lower()[:2]
    for variable in ("QKV_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(variable):
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def from_arguments(arguments: list[str] | None = None) -> str:
    """The language of a command line, known before it is parsed, so that --help speaks it too."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for i, word in enumerate(arguments):
        asked = (
            word[7:] if word.startswith("--lang=") else "".join(arguments[i + 1 : i + 2]) if word == "--lang" else ""
        )
        if asked.lower()[:2] in LANGUAGES:
            return asked.lower()[:2]
    return language()


def say(key: str, lang: str | None = None, /, **values: object) -> str:
    """The sentence behind `key` with the values filled in; numbers are shortened to what a person reads."""
    english, chinese = SENTENCES[key]
    shown = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in values.items()}
    return (chinese if language(lang) == "zh" else english).format(**shown)


def both(english: str, chinese: str, lang: str | None = None) -> str:
    """The one of two sentences that is in the language spoken: for texts that stand where they are used."""
    return chinese if language(lang) == "zh" else english


class Problem(ValueError):
    """A user's mistake, told in both languages: as an exception it reads English, the command line says it in its own.

    >>> print(Problem("problem.word", word="dog", words="cat, mat").say("zh"))
    文中没有 dog；有的是：cat, mat
    """

    def __init__(self, key: str, /, **values: Any) -> None:
        super().__init__(say(key, "en", **values))
        self.key, self.values = key, values

    def say(self, lang: str | None = None) -> str:
        """The same in that language."""
        return say(self.key, lang, **self.values)


SENTENCES: dict[str, tuple[str, str]] = {
    # mistakes
    "problem": ("qkv: {sentence}", "qkv：{sentence}"),
    "problem.english": ("qkv: {sentence}", "qkv：{sentence}（此说明只有英文）"),
    "problem.word": ("{word} is not in the text; there are: {words}", "文中没有 {word}；有的是：{words}"),
    "problem.empty": (
        'the text is empty: give at least one word, as in  qkv steps "我 爱 北京"',
        '文本是空的：请至少给一个词，例如  qkv steps "我 爱 北京"',
    ),
    "problem.text.or.file": (
        'give a text or --file, one of the two, as in  qkv steps "我 爱 北京"',
        '请给一段文本或 --file，二者选一，例如  qkv steps "我 爱 北京"',
    ),
    "problem.only.text": (
        "{option} goes with a text, not with --file: put it into the file ({inside})",
        "{option} 用于文本，不能与 --file 同用：请写进文件（{inside}）",
    ),
    "problem.heads": (
        "{name} is {width} wide, which doesn't divide into {n_head} heads: choose a divisor",
        "{name} 宽 {width}，不能平分成 {n_head} 个头：请选它的约数",
    ),
    "problem.file.missing": ("there is no file {file}", "没有文件 {file}"),
    "problem.file.kind": (
        "{file} is neither .json nor .npz: save the matrices as one of these",
        "{file} 既不是 .json 也不是 .npz：请把矩阵存成其中一种",
    ),
    "problem.file.broken": ("{file} can't be read: {reason}", "{file} 读不出来：{reason}"),
    "problem.file.keys": (
        "{file} holds {keys}; it needs q, k and v, or x with w_q, w_k and w_v (and w_o, memory, mask, names if wanted)",
        "{file} 里有 {keys}；需要 q、k、v，或者 x 加 w_q、w_k、w_v（还可以有 w_o、memory、mask、names）",
    ),
    "problem.mask.word": (
        "no mask is called {name}; there are {words}{hint}",
        "没有叫 {name} 的掩码；有的是 {words}{hint}",
    ),
    "problem.mask.form": ("{word} doesn't read as a mask: write {form}", "{word} 不是一个掩码的写法：请写 {form}"),
    "problem.verb": (
        "there is no verb {verb}; there are {verbs}. See  {near} --help",
        "没有 {verb} 这个动词；有的是 {verbs}。请看  {near} --help",
    ),
    "problem.option": ("{option} needs a verb before it; see  qkv --help", "{option} 前面要有动词；请看  qkv --help"),
    "problem.near": (". Did you mean {near}?", "。您是不是想写 {near}？"),
    "problem.number": (
        "{option} is {value}: give {wanted}",
        "{option} 是 {value}：应为{wanted}",
    ),
    "problem.nonfinite": (
        "{name} holds {value} at {place}: attention needs finite numbers",
        "{name} 在 {place} 处是 {value}：注意力只能计算有限的数",
    ),
    "problem.rows": (
        "{name} is {shape} but the vectors are {width} wide: it needs {width} rows",
        "{name} 的形状是 {shape}，而向量宽 {width}：它应有 {width} 行",
    ),
    "problem.matrix": (
        "{name} is not a matrix of numbers ({reason}); give rows of equal length",
        "{name} 不是数的矩阵（{reason}）；每一行要一样长",
    ),
    "problem.axes": (
        "{name} has {axes} axes, shape {shape}: it needs {wanted}",
        "{name} 有 {axes} 个轴，形状 {shape}：应有 {wanted} 个",
    ),
    # steps.py
    "steps.title": ("softmax(QKᵀ/√d)V, step by step", "softmax(QKᵀ/√d)V，一步一步来"),
    "steps.sizes": (
        "{n} queries look at {m} keys; each vector of q and k has {d} numbers.",
        "{n} 个查询看 {m} 个键；q 和 k 的每个向量有 {d} 个数。",
    ),
    "steps.head": (
        "Shown: head {head} of {heads}, counted from 0.",
        "显示第 {head} 个头（从 0 数起，共 {heads} 个头）。",
    ),
    "steps.batch": ("Shown: item {item} of a batch of {items}.", "显示一批 {items} 条中的第 {item} 条（从 0 数起）。"),
    "steps.project": (
        "Three views of the same words: q = x·W_q asks, k = x·W_k answers, v = x·W_v is what gets passed on.",
        "同一些词的三种样子：q = x·W_q 用来提问，k = x·W_k 用来应答，v = x·W_v 是被传递的内容。",
    ),
    "steps.project.cross": (
        "Two texts: q = x·W_q asks from the one; k = memory·W_k answers and v = memory·W_v is passed on from the other.",
        "两段文本：q = x·W_q 由一段提问；另一段用 k = memory·W_k 应答，并用 v = memory·W_v 传递内容。",
    ),
    "steps.given": ("Q, K and V as they were given.", "直接给出的 Q、K、V。"),
    "steps.scores": (
        "Every query meets every key: their dot product says how well they match. Best match: {query} · {key} = {value}.",
        "每个查询与每个键相遇：点积说明它们有多相配。最相配的一对：{query} · {key} = {value}。",
    ),
    "steps.scaled": (
        "Times {scale} = 1/√{d}: a sum of {d} products spreads like √{d}; dividing that out keeps the softmax from growing "
        "sharper as vectors grow wider.",
        "乘以 {scale} = 1/√{d}：{d} 个乘积之和的起伏约为 √{d}；除掉它，向量变宽时 softmax 才不会越来越尖。",
    ),
    "steps.scaled.own": ("Times {scale}, the scale that was asked for.", "乘以 {scale}，即所要求的缩放。"),
    "steps.scaled.off": (
        "No scaling (scale = 1): the scores go on as they are.",
        "不缩放（scale = 1）：分数原样进入下一步。",
    ),
    "steps.masked": (
        "{hidden} of {total} pairs may not attend: they become −∞, so that their weight will be exactly 0.",
        "{total} 对中有 {hidden} 对不允许相看：置为 −∞，于是权重恰好为 0。",
    ),
    "steps.masked.none": ("No mask: every query may look at every key.", "没有掩码：每个查询都可以看每个键。"),
    "steps.weights": (
        "softmax turns each row into shares: e to the power of each number, divided by the row's sum. "
        "Largest: {query} gives {key} {value}.",
        "softmax 把每一行变成份额：先取 e 的幂，再除以该行之和。最大的一份：{query} 给 {key} {value}。",
    ),
    "steps.weights.dead": (
        "{rows} may attend to nothing: the whole row is 0, not NaN.",
        "{rows} 什么都不能看：整行为 0，而不是 NaN。",
    ),
    "row.sum": ("Row sums: {low} to {high}.", "每行之和：{low} 到 {high}。"),
    "steps.output": (
        "Each output row is the average of the rows of V, weighted by that row's shares.",
        "每一行输出是 V 各行的加权平均，权重就是上一步那一行的份额。",
    ),
    "steps.merge": (
        "The {heads} heads' outputs are put side by side: {shape}.",
        "{heads} 个头的输出并排放在一起：{shape}。",
    ),
    "steps.project.out": (
        "Times W_o, which lets what the heads found mix.",
        "再乘 W_o，把各头的发现混合起来。",
    ),
    "steps.word": ("The row of {word}, term by term: Σ weight × V", "{word} 这一行，逐项相加：Σ 权重 × V"),
    "steps.word.sum": ("sum", "合计"),
    "steps.word.weight": ("weight", "权重"),
    "steps.drawn": (
        "The word vectors (width {dim}) and W_q, W_k, W_v are drawn at random from seed {seed}: every sum below is "
        "true, but the meaning is not learned.",
        "词向量（宽 {dim}）和 W_q、W_k、W_v 由种子 {seed} 随机产生：下面每一步计算都是真的，但其中的意义不是学来的。",
    ),
    "steps.same": (
        "The same word always gets the same vector.",
        "同一个词总是得到同一个向量。",
    ),
    "steps.position": (
        "Sinusoidal positions were added to the word vectors, so the same word differs from place to place.",
        "词向量加上了正弦位置编码，所以同一个词在不同位置有所不同。",
    ),
    "steps.from.file": ("Read from {file}: {what}.", "从 {file} 读入：{what}。"),
    # tiles.py
    "tiles.title": (
        "The same softmax, {block} keys at a time (how flash attention needs no n×n matrix)",
        "同一个 softmax，每次只看 {block} 个键（flash attention 因此不需要 n×n 矩阵）",
    ),
    "tiles.block": (
        "keys {low} to {high}: maximum {old} → {new}; what was summed so far is multiplied by e^(old − new) = {shrink}",
        "第 {low} 到 {high} 个键：最大值 {old} → {new}；此前累加的乘以 e^(旧 − 新) = {shrink}",
    ),
    "tiles.block.first": (
        "keys {low} to {high}: maximum {new}; nothing was summed before",
        "第 {low} 到 {high} 个键：最大值 {new}；此前没有累加",
    ),
    "tiles.block.empty": (
        "keys {low} to {high}: all hidden by the mask; nothing changes",
        "第 {low} 到 {high} 个键：都被掩码挡住，什么都不变",
    ),
    "tiles.sum": ("running sum", "累计和"),
    "tiles.output": ("running output", "累计输出"),
    "tiles.end": (
        "Output = running output / running sum. Largest difference from the plain way: {difference}.",
        "输出 = 累计输出 / 累计和。与普通算法的最大差别：{difference}。",
    ),
    "tiles.row": ("Shown: the row of {word}.", "显示 {word} 这一行。"),
    # masks.py
    "masks.legend": (
        "row = query, column = key; ■ may attend, · may not ({allowed} of {total} allowed)",
        "行 = 查询，列 = 键；■ 允许看，· 不允许（{total} 对中允许 {allowed} 对）",
    ),
    "masks.batch": ("item {item}", "第 {item} 条"),
}
