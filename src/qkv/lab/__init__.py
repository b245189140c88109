"""The lab: measured experiments. Each prints tables, draws a figure and summarizes the results in a paragraph.

Read in this order: `report`, `scaling`, `complexity`, `memory`, `masks`, `distance`, `heads`, `mixers`, `mixer_contest`,
`mixer_summary`, `seq2seq`.

An experiment is a module with four functions: `measure(**sizes)` returns plain numbers; `tables`, `shows` and `draw` turn
them into tables, a paragraph and a figure. A long experiment first times a small step of each of its parts, then reports
its progress in seconds: `progress(done, expected)`. The sizes, with their descriptions and limits, are defined here so that
`qkv lab --help` doesn't import torch.

>>> results = run("memory", model="gpt2", length=1024)
>>> results["rows"][0]["kind"], results["rows"][0]["bytes"]
('MHA', 37748736)
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from ..i18n import Message, Problem, _, unknown

Row = dict[str, Any]  # JSON values
Results = dict[str, Any]  # sizes, rows and totals of an experiment
Progress = Callable[[float, float], None]  # expected seconds of the work done, and of all work


class Size(NamedTuple):
    """One option: default, limits and description. If the default is a tuple, it takes several numbers."""

    name: str
    default: str | float | tuple[int, ...] | None
    least: float
    most: float
    means: Message
    word: str = ""  # its name on the command line, if different

    @property
    def switch(self) -> bool:
        """True if it is an on/off switch."""
        return (self.least, self.most) == (0, 1)

    @property
    def option(self) -> str:
        """The option on the command line."""
        return "--" + (self.word or self.name).replace("_", "-")


class Experiment(NamedTuple):
    """A one-line description, the sizes, and an example command."""

    line: Message
    sizes: tuple[Size, ...]
    example: str


SEED = Size("seed", 0, 0, 2**31 - 1, Message("draws every random number"))


def _training(steps: int, width: int, batch: int) -> tuple[Size, ...]:
    return (
        Size("steps", steps, 1, 100_000, Message("training steps of each model")),
        Size("width", width, 8, 1024, Message("width of the models")),
        Size("batch", batch, 1, 4096, Message("rows per step")),
    )


EXPERIMENTS: dict[str, Experiment] = {
    "scaling": Experiment(
        Message("why scores are divided by √d_k"),
        (
            Size("numbers", 20_000, 2, 5_000_000, Message("how many numbers go through softmax")),
            Size("std", 100.0, 0.01, 1e6, Message("their standard deviation, beside 1")),
            Size("widths", (4, 16, 64, 256, 1024), 1, 16384, Message("d_k, one or several")),
            Size("keys", 64, 2, 16384, Message("keys that each query chooses from")),
            Size("queries", 512, 1, 16384, Message("queries to average over")),
            SEED,
        ),
        "qkv lab scaling --std 10 --widths 8,64,512",
    ),
    "complexity": Experiment(
        Message("time and memory against the length of the text"),
        (
            Size("lengths", (1024, 2048, 4096, 8192, 16384), 16, 131_072, Message("n, three or more")),
            Size("to", 100_000, 16, 10**9, Message("the n to extrapolate to")),
            Size("window", 128, 0, 131_072, Message("keys before it that a windowed query sees")),
            Size("heads", 1, 1, 64, Message("heads")),
            Size("width", 64, 1, 1024, Message("width of a head")),
            Size("context", 512, 8, 8192, Message("tokens per row of the training step")),
            Size("compile", 0, 0, 1, Message("measure torch.compile too, which may take minutes")),
            SEED,
        ),
        "qkv lab complexity --lengths 512,1024,2048,4096 --window 64",
    ),
    "memory": Experiment(
        Message("what the KV cache of MHA, GQA, MQA and MLA takes"),
        (
            Size(
                "model",
                "llama-3-8b",
                0,
                0,
                Message("a shape by name (see the table of qkv lab memory), a run, a folder or a .gguf file"),
            ),
            Size("length", 32_768, 1, 10**9, Message("tokens kept")),
            Size("batch", 1, 1, 10**6, Message("texts at once")),
            Size("bytes", 2, 1, 8, Message("bytes per number: 4 float32, 2 float16, 1 int8")),
            Size("room", 16.0, 0.001, 1e6, Message("GB there are for the cache")),
            *(
                Size(name, None, 1, most, Message("{what}, instead of the model's", what=Message(what)))
                for name, most, what in (
                    ("layers", 10_000, _("layers")),
                    ("heads", 10_000, _("heads")),
                    ("kv_heads", 10_000, _("key/value heads of GQA")),
                    ("head_width", 65_536, _("width of a head")),
                    ("rank", 10**6, _("numbers of MLA's latent")),
                    ("rope_width", 65_536, _("numbers of MLA's rotary key")),
                )
            ),
        ),
        "qkv lab memory --model deepseek-v3 --length 128000",
    ),
    "distance": Experiment(
        Message("an LSTM against attention over a growing gap"),
        (
            Size("gaps", (4, 16, 64, 256), 1, 4096, Message("noise between word and question")),
            Size("symbols", 8, 2, 1000, Message("words there are to remember")),
            *_training(300, 64, 32),
            SEED,
        ),
        "qkv lab distance --gaps 8,32,128 --steps 200",
    ),
    "heads": Experiment(
        Message("1 to 16 heads at equal width on the repeat task"),
        (
            Size("heads", (1, 2, 4, 8, 16), 1, 64, Message("how many, one or several")),
            Size("layers", 2, 1, 12, Message("layers")),
            Size("length", 16, 2, 512, Message("longest sequence that is repeated")),
            Size("symbols", 32, 2, 10_000, Message("different symbols")),
            *_training(400, 64, 32),
            SEED,
        ),
        "qkv lab heads --heads 1,4 --width 32",
    ),
    "mixers": Experiment(
        Message("attention, window, retention, Mamba-2, delta and a hybrid: text, recall, cost of a token"),
        (
            Size(
                "text",
                "",
                0,
                0,
                Message("what is learned: a file, a folder or a data set (shakespeare, if it is here)"),
            ),
            Size("steps", 200, 1, 100_000, Message("training steps on the text")),
            Size(
                "pairs", (2, 4, 8, 16, 32), 1, 1024, Message("pairs of key and value to recall, one number or several")
            ),
            Size("recall_steps", 400, 1, 100_000, Message("training steps on the pairs")),
            Size("lengths", (1000, 10_000, 100_000), 1, 10**6, Message("tokens before the one that is timed")),
            Size("width", 64, 8, 1024, Message("width of the models")),
            Size("layers", 2, 2, 24, Message("layers; the hybrid's last is attention, the others Mamba-2")),
            Size("window", 31, 0, 131_072, Message("keys before it that a windowed query sees")),
            Size("state", 16, 2, 1024, Message("width of the keys of every state")),
            Size("seeds", 3, 1, 100, Message("how often each is trained, from other first weights on other rows")),
            Size("tune", 0, 0, 1, Message("choose the learning rates anew, by a sweep")),
            SEED,
        ),
        "qkv lab mixers --pairs 2,8,32 --state 4 --text mybook.txt",
    ),
    "seq2seq": Experiment(
        Message("a GRU with additive attention against a Transformer, on dates"),
        (
            *_training(400, 64, 64),
            Size("tests", 200, 1, 10_000, Message("unseen dates to translate")),
            Size("text", "15 November 2026", 0, 0, Message("the date whose alignment is drawn"), "date"),
            SEED,
        ),
        'qkv lab seq2seq --date "二〇二六年十一月十五日"',
    ),
    "masks": Experiment(
        Message("self, causal and cross-attention: who looks at whom"),
        (
            Size("text", "", 0, 0, Message("your own words, instead of a real translator's"), "words"),
            Size("source", "", 0, 0, Message("the words that cross-attention looks at")),
            Size("width", 32, 2, 4096, Message("width of the vectors of your own words")),
            SEED,
        ),
        'qkv lab masks --words "I love Beijing" --source "我 爱 北京"',
    ),
}


class Course:
    """Progress of an experiment in expected seconds; `expected` has the seconds of each part.

    >>> course = Course(lambda done, expected: print(f"{done} of {expected} s"), [1, 4])
    0 of 5 s
    >>> course(1, 0.5)
    3.0 of 5 s
    """

    def __init__(self, progress: Progress, expected: Sequence[float]) -> None:
        self.progress, self.expected = progress, list(expected)
        self(0, 0)

    def __call__(self, part: int, share: float = 1) -> None:
        """Report that a share of this part is done, and all parts before it."""
        self.progress(sum(self.expected[:part]) + share * self.expected[part], sum(self.expected))


def small_step(work: Callable[[], object]) -> float:
    """Return the seconds of a call, after one call to warm up."""
    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run(name: str, progress: Progress = lambda done, total: None, **own: object) -> Results:
    """Run one experiment with these sizes (others have their defaults) and return its results."""
    if name not in EXPERIMENTS:
        raise unknown("experiment", name, EXPERIMENTS)
    sizes: Row = {size.name: size.default for size in EXPERIMENTS[name].sizes}
    if unknown_sizes := sorted(own.keys() - sizes):
        raise unknown(f"size of {name}", unknown_sizes[0], sizes)
    for size in EXPERIMENTS[name].sizes:
        if own.get(size.name) is not None:
            sizes[size.name] = checked(size, own[size.name])
    results = experiment(name).measure(progress=progress, **sizes)
    return {"experiment": name, "sizes": {key: value for key, value in sizes.items() if value is not None}, **results}


class ExperimentModule(Protocol):
    """The four functions of an experiment's module."""

    def measure(self, *, progress: Progress, **sizes: Any) -> Results: ...
    def tables(self, results: Results) -> Sequence[object]: ...
    def shows(self, results: Results) -> str: ...
    def draw(self, results: Results, path: str | Path | None = None) -> object: ...


def experiment(name: str) -> ExperimentModule:
    """Return the module of an experiment."""
    return cast(ExperimentModule, importlib.import_module(f"{__name__}.{name}"))


def checked(size: Size, value: object) -> str | float | tuple[float, ...]:
    """Return the value in the type of its size, or raise a Problem if it is invalid.

    >>> checked(Size("n", (1, 2), 1, 9, Message("")), "3,5")
    (3, 5)
    """
    if isinstance(size.default, str):
        return str(value)
    takes_list = isinstance(size.default, tuple)
    number_type: type[float] | type[int] = float if isinstance(size.default, float) else int
    parts: Any = value if isinstance(value, list | tuple) else str(value).split(",") if takes_list else [value]
    try:
        numbers = [number_type(part) for part in parts]
    except ValueError:
        numbers = []
    if not numbers or not all(size.least <= number <= size.most for number in numbers):
        text = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
        bounds = f"{_format_bound(size.least)} … {_format_bound(size.most)}"
        key = (
            _("{option} is {value}: give whole numbers separated by commas, each {wanted}")
            if takes_list
            else _("{option} is {value}: give {wanted}")
        )
        raise Problem(key, option=size.option, value=repr(text) if text == "" else str(text), wanted=bounds)
    if takes_list:
        return tuple(sorted(set(numbers)))
    return numbers[0]


def _format_bound(number: float) -> str:
    return f"{int(number):,}" if number == int(number) and number < 10**12 else f"{number:g}"
