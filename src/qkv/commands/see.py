"""qkv see: show where the heads of a model attend in a text."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..i18n import Message, Problem, _, echo, language, quoted, say
from ..terminal.progress import bar, forward_progress
from ..terminal.screen import draw
from .model_options import missing_model, model_arguments, open_any
from .option_checks import conflict
from .output_path import FIGURES, check_output
from .text_input import read_whole, text_arguments

if TYPE_CHECKING:
    from ..draw.head_report import HeadReport
    from ..tracing.views.token_labels import By
    from ..tracing.views.traces import Trace

EXAMPLES = [
    'qkv see "The cat sat on the mat because it was tired" --from it --to cat',
    "qkv see --demo",
    "qkv see --text chapter.txt --model smollm2 -o chapter.html",
    'qkv see "…" --model ./my-hf-model --layer 5 --head 3 --png map.png',
    "qkv see 我喜欢玩人工智能。 --model opus-zh-en --cross",
    "qkv see --model runs/lm-mybook --watch",
    "qkv see --model smollm2 --syntax",
    'qkv see "The capital of France is" --model smollm2 --without 13.8',
]


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text_arguments(parser, say("the text"))
    model_arguments(parser)
    add("--from", dest="from_", metavar="WORD", help=say("the word that attends (a row of the map)"))
    add("--to", metavar="WORD", help=say("the attended word: which heads link the two?"))
    add("--layer", type=int, metavar="L", help=say("which layer, from 0"))
    add("--head", type=int, metavar="H", help=say("which head, from 0"))
    add(
        "--part",
        choices=["encoder", "decoder", "cross", "mixers"],
        help=say("which part of an encoder-decoder; mixers are the layers of a hybrid that keep a state"),
    )
    add("--cross", action="store_true", help=say("the same as --part cross"))
    joined = parser.add_mutually_exclusive_group()
    joined.add_argument("--words", action="store_true", help=say("join tokens to words"))
    joined.add_argument("--tokens", action="store_true", help=say("every token as it is, also parts of characters"))
    add("-o", "--out", type=Path, metavar="PAGE.html", help=say("write a page with every head"))
    add("--png", type=Path, metavar="FILE", help=say("draw it: .png, .svg or .pdf"))
    add("--patterns", action="store_true", help=say("what each head does"))
    add(
        "--syntax",
        nargs="?",
        const="",
        metavar="FILE.conllu",
        help=say("heads against grammar, on our own sentences or a CoNLL-U file"),
    )
    add("--without", metavar="L.H", action="append", help=say("what changes without this head (layer.head, from 0)"))
    add(
        "--eager", action="store_true", help=say("the weights that a Hugging Face model returns; no q, k, v; memory n²")
    )
    add("--watch", action="store_true", help=say("how heads formed while a run trained"))
    add("--demo", action="store_true", help=say("traces of real models that come with qkv"))
    add("--save", type=Path, metavar="FILE", help=say("keep the trace (.safetensors)"))
    add("--trace", type=Path, metavar="FILE", help=say("open a kept trace instead of a model"))


# Options that conflict with each mode: refused rather than ignored.
CONFLICTS = {
    "syntax": "text file from_ to layer head part cross words tokens out png patterns without save eager watch demo trace",
    "watch": "text file patterns without save eager demo trace",
    "demo": "file model eager trace",
    "trace": "text file model eager",
}


def run(options: argparse.Namespace) -> None:
    """Trace a text, then print, draw and write the maps."""
    _check(options)
    if options.syntax is not None:
        _syntax(options)
        return
    if options.watch:
        _watch(options)
        return
    trace, model, tokenizer = _trace(options)
    report = _report(options, trace)
    report.check_words()
    print(report.summary())
    layer, head = _choose(options, report)
    print("\n" + report.title(layer, head))
    draw(report.map(layer, head))
    for text in report.details(layer, head, patterns=options.patterns):
        print("\n" + text)
    if options.without:
        print("\n" + report.without(model, tokenizer, options.without))
    if options.save is not None:
        trace.save(options.save)
        echo("wrote {path}", path=options.save)
    if options.png is not None:
        from ..draw import plots

        plots.head(trace, layer, head, by=report.by, part=report.part, path=options.png)
        echo("wrote {path}", path=options.png)
    if options.out is not None:
        _page(options, report, layer, head)


def _report(options: argparse.Namespace, trace: Trace) -> HeadReport:
    from ..draw.head_report import HeadReport

    by: By = "words" if options.words else "tokens" if options.tokens else "characters"
    return HeadReport(trace, "cross" if options.cross else options.part, by, options.from_, options.to)


def _choose(options: argparse.Namespace, report: HeadReport) -> tuple[int, int]:
    """Return the head to show: the named or removed one, else the one with the strongest link or pattern."""
    if table := report.link_table():
        print("\n" + table)
    if options.layer is options.head is options.to is None and (away := report.removed_head(options.without)):
        return report.choose(*away)
    with bar(say("looking at every head")) as progress:
        return report.choose(options.layer, options.head, progress)


def _check(options: argparse.Namespace) -> None:
    """Refuse invalid and conflicting options before any work."""
    for file, endings in ((options.png, FIGURES), (options.out, (".html", ".htm")), (options.save, None)):
        if file is not None:
            check_output(file, endings)
    for option, rivals in CONFLICTS.items():
        for rival in rivals.split():
            if _is_set(options, option) and _is_set(options, rival):
                raise conflict(_flag(option), _flag(rival))
    if options.cross and options.part not in (None, "cross"):
        raise conflict("--cross", f"--part {options.part}")
    if options.without and (options.demo or options.trace is not None):
        raise Problem("--without needs the model itself, not a kept trace: give --model")
    if not options.demo and options.to is not None and options.from_ is None:
        raise Problem("--to names the attended word: give the word that attends, too, --from WORD")
    if options.watch and options.from_ is not None and options.to is None:
        raise Problem("--watch follows the link between two words: give --to as well as --from")


def _is_set(options: argparse.Namespace, name: str) -> bool:
    value = getattr(options, name)
    return value is not None and value is not False


def _flag(name: str) -> Any:
    return Message("a text") if name == "text" else "--text" if name == "file" else "--" + name.strip("_")


def _page(options: argparse.Namespace, report: HeadReport, layer: int, head: int, title: str | None = None) -> None:
    """Write the page, which opens at the head shown in the terminal, and print what it holds."""
    from ..draw.page import page

    read_whole: dict[str, list[int]] = {}
    with bar(say("writing the page")) as progress:
        page(
            report.trace,
            options.out,
            title=title,
            focus=report.focus,
            layers=[layer],
            lang=language(),
            progress=progress,
            told=read_whole.update,
            first=(report.part, layer, head),
            by=report.by,
        )
    size = f"{options.out.stat().st_size / 1e6:.1f} MB"
    echo("wrote {path} ({size}): open it in a browser, no network needed", path=options.out, size=size)
    for line in report.coverage_notes(read_whole, layer if options.layer is not None else None):
        print(line)


def _demo(options: argparse.Namespace) -> Trace:
    """Return the shipped trace of the text, by default of the cat sentence."""
    from ..tracing.views.demo_traces import CAT, demo_of, demo_traces

    for name, trace in demo_traces().items():
        echo("{name}: {model} on “{text}”", name=name, model=trace.model, text=trace.text)
    print()
    shipped = demo_of(CAT if options.text is None else options.text)
    if shipped is None:
        raise Problem("no trace of “{text}” ships with qkv: give one of the texts above, or none", text=options.text)
    if shipped.text == CAT:
        options.from_, options.to = options.from_ or "it", options.to or "cat"
    elif options.to is not None and options.from_ is None:
        raise Problem("--to names the attended word: give the word that attends, too, --from WORD")
    return shipped


def _trace(options: argparse.Namespace) -> tuple[Trace, Any, Any]:
    """Return (trace, model, tokenizer); the last two are None for stored traces."""
    if options.demo:
        return _demo(options), None, None
    if options.trace is not None:
        if not options.trace.exists():  # before torch is loaded
            raise Problem("there is no trace {file}", file=options.trace)
        from ..tracing.views.traces import Trace

        return Trace.load(options.trace), None, None
    text = read_whole(options.text, options.file, EXAMPLES[0])
    name = options.model or ("opus-zh-en" if re.search("[\u4e00-\u9fff]", text) else "smollm2")
    try:
        model, tokenizer = open_any(name, yes=options.yes, eager=options.eager)
    except (Problem, OSError) as problem:  # no model, an unwritable cache, a full disk
        if options.model is not None:
            raise
        from ..tracing.views.demo_traces import demo_of

        if (shipped := demo_of(text)) is None:
            raise
        echo(
            "The model isn't here ({reason}).\nThis is the same sentence from the trace that ships with qkv, "
            "recorded from that model; any other text needs the model itself.",
            reason=quoted(problem),
        )
        return shipped, None, None
    from ..tracing.record.recorder import trace
    from ..tracing.study.edits import check_names

    view = "cross" if options.cross else options.part, options.layer, options.head
    words = options.from_, options.to
    check_names(model, tokenizer, text, heads=options.without or (), selection=view, words=words)
    with bar(say("reading the text")) as progress, forward_progress(model, progress):
        recorded = trace(model, text, tokenizer, name=name, eager=options.eager)
    return recorded, model, tokenizer


def _syntax(options: argparse.Namespace) -> None:
    from ..tracing.study.syntax import syntax

    if options.model is None:
        raise missing_model("see")
    model, tokenizer = open_any(options.model, yes=options.yes)
    with bar(say("reading sentences")) as progress:
        relations = syntax(model, tokenizer, options.syntax or None, progress=progress)
    print(relations.show())
    echo("Layers and heads count from 0.")


def _watch(options: argparse.Namespace) -> None:
    if options.model is None:
        raise Problem("--watch shows a run: give its folder, --model RUN")
    from ..disk.run_folder import WATCH, first_watched_step, numbered

    files = list(numbered(Path(options.model) / WATCH, ".safetensors").values())
    if not files:
        if (first_step := first_watched_step(Path(options.model))) is None:
            raise Problem(
                '{run} recorded no attention: train with  qkv train … --watch "a sentence"', run=options.model
            )
        raise Problem(
            "{run} records its attention at every evaluation, the first at step {step}: try again then",
            run=options.model,
            step=first_step,
        )
    with bar(say("opening {name}", name=options.model)):
        from ..draw.plots import MOMENTS
        from ..tracing.views.traces import Trace

        traces = [Trace.load(file) for file in files]
    steps = [trace.more.get("step", file.stem) for trace, file in zip(traces, files, strict=True)]
    report = _report(options, traces[-1])
    print(report.summary())
    layer, head = _choose(options, report)
    title = _("How layer {layer}, head {head} formed, over {n} evaluations:")
    if len(files) == 1:
        title = _("Layer {layer}, head {head} at the only evaluation so far:")
    print("\n" + say(title, layer=layer, head=head, n=len(files)))
    if report.focus is not None:
        print(report.link_growth(traces, steps, layer, head))
    else:
        if len(traces) > 3:
            echo(
                "Shown are the first, the middle and the last; --from and --to follow a link through all of them, --png "
                "draws up to {n}.",
                n=MOMENTS,
            )
        for heading, drawing in report.growth(traces, steps, layer, head):
            print("\n" + heading)
            draw(drawing)
    if options.png is not None:
        from ..draw import plots

        plots.growth(traces, layer, head, by=report.by, part=report.part, lang=language(), path=options.png)
        echo("wrote {path}", path=options.png)
    if options.out is not None:
        echo("The page is of the last evaluation, step {step}.", step=steps[-1])
        title = report.trace.model + " · " + say("step {step}", step=steps[-1])
        _page(options, report, layer, head, title=title)
