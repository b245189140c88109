"""The lab: measured experiments. Each prints a table, draws a figure and says in a paragraph what was measured.

An experiment is a file with four functions: `measure(**sizes)` gives plain numbers, `tables`, `shows` and `draw` tell
them as tables, as a paragraph and as a figure. One that may take long first measures a small step of each of its parts,
and from then on tells how far it is in seconds: `progress(done, expected)`. The sizes, with what they mean and how far they may go, stand here, so
that `qkv lab --help` needs no torch.

>>> found = run("memory", model="gpt2", length=1024)
>>> found["rows"][0]["kind"], found["rows"][0]["bytes"]
('MHA', 37748736)
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..words import Both, Problem, unknown

Progress = Callable[[float, float], None]  # seconds gone, as they were expected, and seconds expected in all


class Size(NamedTuple):
    """One option: its default, how far it may go, and what it means. A default that is a tuple takes several numbers."""

    name: str
    default: Any
    least: float
    most: float
    means: Both

    @property
    def switch(self) -> bool:
        """Whether it is only on or off."""
        return (self.least, self.most) == (0, 1)

    @property
    def option(self) -> str:
        """As the command line has it."""
        return "--" + self.name.replace("_", "-")


class Experiment(NamedTuple):
    """What it shows in one line, its sizes, and an example of its own."""

    line: Both
    sizes: tuple[Size, ...]
    example: str


def _seed() -> Size:
    return Size("seed", 0, 0, 2**31 - 1, Both("draws every random number", "随机数种子"))


def _training(steps: int, width: int, batch: int) -> tuple[Size, ...]:
    return (
        Size("steps", steps, 1, 100_000, Both("training steps of each model", "每个模型训练多少步")),
        Size("width", width, 8, 1024, Both("width of the models", "模型的宽度")),
        Size("batch", batch, 1, 4096, Both("rows per step", "每步多少行")),
    )


EXPERIMENTS: dict[str, Experiment] = {
    "scaling": Experiment(
        Both("why scores are divided by √d_k", "为什么要除以 √d_k"),
        (
            Size("numbers", 20_000, 2, 5_000_000, Both("how many numbers go through softmax", "多少个数经过 softmax")),
            Size("std", 100.0, 0.01, 1e6, Both("their standard deviation, beside 1", "它们的标准差，与 1 对照")),
            Size("widths", (4, 16, 64, 256, 1024), 1, 16384, Both("d_k, one or several", "d_k，一个或多个")),
            Size("keys", 64, 2, 16384, Both("keys that each query chooses from", "每个查询面对多少个键")),
            Size("queries", 512, 1, 16384, Both("queries to average over", "对多少个查询取平均")),
            _seed(),
        ),
        "qkv lab scaling --std 10 --widths 8,64,512",
    ),
    "complexity": Experiment(
        Both("time and memory against the length of the text", "时间和内存随文本长度的变化"),
        (
            Size("lengths", (1024, 2048, 4096, 8192, 16384), 16, 131_072, Both("n, three or more", "n，至少三个")),
            Size("to", 100_000, 16, 10**9, Both("the n to extrapolate to", "外推到多长")),
            Size("window", 128, 0, 131_072, Both("keys before it that a windowed query sees", "窗口内可见的前文键数")),
            Size("heads", 1, 1, 64, Both("heads", "头数")),
            Size("width", 64, 1, 1024, Both("width of a head", "每个头的宽度")),
            Size("context", 512, 8, 8192, Both("tokens per row of the training step", "训练一步时每行的词元数")),
            Size(
                "compile",
                0,
                0,
                1,
                Both("measure torch.compile too, which may take minutes", "也测 torch.compile，可能要几分钟"),
            ),
            _seed(),
        ),
        "qkv lab complexity --lengths 512,1024,2048,4096 --window 64",
    ),
    "memory": Experiment(
        Both("what the KV cache of MHA, GQA, MQA and MLA takes", "MHA、GQA、MQA、MLA 的 KV 缓存各占多少"),
        (
            Size(
                "model",
                "llama-3-8b",
                0,
                0,
                Both(
                    "a shape by name (see the table of qkv lab memory), a run, a folder or a .gguf file",
                    "按名字选的形状（qkv lab memory 会列出）、训练得到的文件夹、模型文件夹或 .gguf 文件",
                ),
            ),
            Size("length", 32_768, 1, 10**9, Both("tokens kept", "缓存多少个词元")),
            Size("batch", 1, 1, 10**6, Both("texts at once", "同时多少段文本")),
            Size("bytes", 2, 1, 8, Both("bytes per number: 4 float32, 2 float16, 1 int8", "每个数的字节数：4、2 或 1")),
            Size("room", 16.0, 0.001, 1e6, Both("GB there are for the cache", "可用于缓存的 GB 数")),
            *(
                Size(name, None, 1, most, Both(f"{english}, instead of the model's", f"{chinese}，代替模型自己的"))
                for name, most, english, chinese in (
                    ("layers", 10_000, "layers", "层数"),
                    ("heads", 10_000, "heads", "头数"),
                    ("kv_heads", 10_000, "key/value heads of GQA", "GQA 的键/值头数"),
                    ("head_width", 65_536, "width of a head", "每个头的宽度"),
                    ("rank", 10**6, "numbers of MLA's latent", "MLA 隐向量的长度"),
                    ("rope_width", 65_536, "numbers of MLA's rotary key", "MLA 旋转键的长度"),
                )
            ),
        ),
        "qkv lab memory --model deepseek-v3 --length 128000",
    ),
    "distance": Experiment(
        Both("an LSTM against attention over a growing gap", "间隔越来越长：LSTM 与注意力"),
        (
            Size("gaps", (4, 16, 64, 256), 1, 4096, Both("noise between word and question", "词与提问之间的噪声长度")),
            Size("symbols", 8, 2, 1000, Both("words there are to remember", "要记的词有多少种")),
            *_training(300, 64, 32),
            _seed(),
        ),
        "qkv lab distance --gaps 8,32,128 --steps 200",
    ),
    "heads": Experiment(
        Both("1 to 16 heads at equal width on the repeat task", "同样宽度下 1 到 16 个头做重复任务"),
        (
            Size("heads", (1, 2, 4, 8, 16), 1, 64, Both("how many, one or several", "头数，一个或多个")),
            Size("layers", 2, 1, 12, Both("layers", "层数")),
            Size("length", 16, 2, 512, Both("longest sequence that is repeated", "被重复的序列最长多少")),
            Size("symbols", 32, 2, 10_000, Both("different symbols", "有多少种符号")),
            *_training(400, 64, 32),
            _seed(),
        ),
        "qkv lab heads --heads 1,4 --width 32",
    ),
    "seq2seq": Experiment(
        Both("a GRU with additive attention against a Transformer, on dates", "日期翻译：GRU 加性注意力与 Transformer"),
        (
            *_training(400, 64, 64),
            Size("tests", 200, 1, 10_000, Both("unseen dates to translate", "翻译多少个没见过的日期")),
            Size("text", "15 November 2026", 0, 0, Both("the date whose alignment is drawn", "画出哪个日期的对齐")),
            _seed(),
        ),
        'qkv lab seq2seq --text "二〇二六年十一月十五日"',
    ),
    "masks": Experiment(
        Both("self, causal and cross-attention: who looks at whom", "自注意力、因果注意力、交叉注意力：谁看谁"),
        (
            Size(
                "text", "", 0, 0, Both("your own words, instead of a real translator's", "自己的词，代替真实翻译模型的")
            ),
            Size("source", "", 0, 0, Both("the words that cross-attention looks at", "交叉注意力所看的词")),
            Size("width", 32, 2, 4096, Both("width of the vectors of your own words", "自己的词的向量宽度")),
            _seed(),
        ),
        'qkv lab masks --text "I love Beijing" --source "我 爱 北京"',
    ),
}


class Course:
    """How far an experiment is, in the seconds that it is expected to take: so many for each of its parts.

    >>> course = Course(lambda done, expected: print(f"{done} of {expected} s"), [1, 4])
    0 of 5 s
    >>> course(1, 0.5)
    3.0 of 5 s
    """

    def __init__(self, progress: Progress, expected: Sequence[float]) -> None:
        self.progress, self.expected = progress, list(expected)
        self(0, 0)

    def __call__(self, part: int, share: float = 1) -> None:
        """So much of this part is done."""
        self.progress(sum(self.expected[:part]) + share * self.expected[part], sum(self.expected))


def small_step(work: Callable[[], Any]) -> float:
    """Seconds that some work takes once it has been done before."""
    work()
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def run(name: str, progress: Progress = lambda done, total: None, **own: Any) -> dict[str, Any]:
    """Measure one experiment with these sizes (the others as they stand above); gives plain numbers."""
    if name not in EXPERIMENTS:
        raise unknown("experiment", name, EXPERIMENTS)
    sizes = {size.name: size.default for size in EXPERIMENTS[name].sizes}
    if strange := sorted(own.keys() - sizes):
        raise unknown(f"size of {name}", strange[0], sizes)
    for size in EXPERIMENTS[name].sizes:
        if own.get(size.name) is not None:
            sizes[size.name] = checked(size, own[size.name])
    found = experiment(name).measure(progress=progress, **sizes)
    return {"experiment": name, "sizes": {key: value for key, value in sizes.items() if value is not None}, **found}


def experiment(name: str) -> Any:
    """The file of that experiment."""
    return importlib.import_module(f"{__name__}.{name}")


def checked(size: Size, value: Any) -> Any:
    """The value in the form its size wants, or the problem it has.

    >>> checked(Size("n", (1, 2), 1, 9, Both("", "")), "3,5")
    (3, 5)
    """
    if isinstance(size.default, str):
        return str(value)
    several = isinstance(size.default, tuple)
    kind: Any = float if isinstance(size.default, float) else int
    given = value if isinstance(value, list | tuple) else str(value).split(",") if several else [value]
    try:
        numbers = [kind(part) for part in given]
    except ValueError:
        numbers = []
    if not numbers or not all(size.least <= number <= size.most for number in numbers):
        shown = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
        span = f"{_plain(size.least)} … {_plain(size.most)}"
        key = "lab.numbers" if several else "problem.number"
        raise Problem(key, option=size.option, value=repr(shown) if shown == "" else str(shown), wanted=span)
    if several:
        return tuple(sorted(set(numbers)))
    return numbers[0]


def _plain(number: float) -> str:
    return f"{int(number):,}" if number == int(number) and number < 10**12 else f"{number:g}"
