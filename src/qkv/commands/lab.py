"""qkv lab: measured experiments, each with a table, a figure and a paragraph."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..i18n import _, echo, say
from ..lab import EXPERIMENTS, Progress, Size, checked, experiment
from ..lab import run as measured
from ..terminal import text_grid
from ..terminal.progress import bar
from .output_path import FIGURES, check_output

EXAMPLES = [
    "qkv lab",
    "qkv lab scaling",
    "qkv lab complexity --lengths 512,1024,2048,4096 -o complexity.svg",
    "qkv lab memory --model deepseek-v3 --length 128000",
    "qkv lab mixers --text mybook.txt --pairs 2,8,32",
    'qkv lab seq2seq --date "二〇二六年十一月十五日"',
    "qkv lab heads --help",
]
SLOW = 2  # seconds


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add a subcommand for each experiment, with its sizes as options."""
    experiments = parser.add_subparsers(dest="experiment", metavar=say("experiment"), help=say("one of these:"))
    for name, (line, sizes, example) in EXPERIMENTS.items():
        subparser = experiments.add_parser(
            name,
            help=say(line),
            description=say(line),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog="\n".join([say("examples:"), f"  qkv lab {name}", f"  {example}"]),
            allow_abbrev=False,
        )
        for size in sizes:
            # A switch takes no value, 1 or 0.
            switch_options: dict[str, Any] = dict(nargs="?", const=1) if size.switch else {}
            size_help = say(size.means) + _default(size)
            subparser.add_argument(
                size.option, dest=size.name, metavar=_metavar(size), help=size_help, **switch_options
            )
        figure_help = say("the figure: .png, .svg or .pdf (out/lab-{name}.png)", name=name)
        subparser.add_argument("-o", "--out", type=Path, metavar="FIGURE", help=figure_help)
        subparser.add_argument("--json", action="store_true", help=say("the numbers as JSON"))


def _metavar(size: Size) -> str:
    if isinstance(size.default, str):
        return "FILE" if size.option == "--text" else "TEXT"
    return "N,N,…" if isinstance(size.default, tuple) else "X" if isinstance(size.default, float) else "N"


def _default(size: Size) -> str:
    if size.default in (None, "") or size.switch:
        return ""
    text = ",".join(map(str, size.default)) if isinstance(size.default, tuple) else f"{size.default}"
    return say(" ({shown})", shown=text).replace("%", "%%")


def run(options: argparse.Namespace) -> None:
    """Run an experiment and print its table, paragraph and figure path; without a name, list the experiments."""
    if options.experiment is None:
        print(listing())
        return
    name = options.experiment
    sizes = {size.name: getattr(options, size.name) for size in EXPERIMENTS[name].sizes}
    for size in EXPERIMENTS[name].sizes:  # before slow imports
        if sizes[size.name] is not None:
            sizes[size.name] = checked(size, sizes[size.name])
    out = options.out or Path("out") / f"lab-{name}.png"
    check_output(out, FIGURES)
    out.parent.mkdir(parents=True, exist_ok=True)  # fails before the training, not after
    with bar(say("measuring {name}", name=name)) as progress:
        results: dict[str, Any] = measured(name, _with_estimate(name, progress), **sizes)
        module = experiment(name)
        module.draw(results, out)
    if options.json:
        print(json.dumps(results | {"shows": module.shows(results), "figure": str(out)}, ensure_ascii=False))
        return
    from ..lab.report import wrap

    for table in module.tables(results):
        print(f"{table}\n")
    print(wrap(module.shows(results)) + "\n")
    echo("wrote {path}", path=out)


def _with_estimate(name: str, progress: Progress) -> Progress:
    """Wrap `progress` to print the estimated time once, after the first small step."""
    expected = None

    def report(done: float, total: float) -> None:
        nonlocal expected
        if expected is None and total >= SLOW:
            estimate = _("{name} will take about {seconds} s here, by a first small step")
            echo(estimate, sys.stderr, name=name, seconds=f"{total:.0f}")
        expected = total
        progress(done, total)

    return report


def listing() -> str:
    """Return the list of experiments, with a description and an example each."""
    column = max(map(len, EXPERIMENTS)) + 2
    lines = [
        say(
            "Measured experiments. Each prints a table, draws a figure and says what was measured, with your own sizes:"
        ),
        "",
    ]
    for name, (line, _sizes, example) in EXPERIMENTS.items():
        lines += [f"  {text_grid.left(name, column)}{say(line)}", f"  {'':{column}}{example}", ""]
    return "\n".join([*lines, say("The sizes of one: qkv lab EXPERIMENT --help")])
