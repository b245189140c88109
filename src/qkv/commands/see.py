"""qkv see: where the heads of a model look, on a text."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..i18n import Message, Problem, _, all_of, language, quoted, say
from ..terminal import text_grid
from ..terminal.progress import bar, passing
from ..terminal.screen import draw
from ..tracing.views.token_labels import PARTS
from .model_options import model_arguments, open_any, which_model
from .output_path import FIGURES, check_place
from .text_input import text_arguments, whole

if TYPE_CHECKING:
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
DEMOS = Path(__file__).parent.parent / "demo" / "traces"
MOST_SHOWN = 64  # tokens up to which a terminal map shows each


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    text_arguments(parser, say("the text"))
    model_arguments(parser)
    add("--from", dest="from_", metavar="WORD", help=say("the word that looks (its row)"))
    add(
        "--to",
        metavar="WORD",
        help=say("the word that is looked at: which heads link the two?"),
    )
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
    joined.add_argument(
        "--tokens",
        action="store_true",
        help=say("every token as it is, also those that are part of a character"),
    )
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
    add(
        "--without",
        metavar="L.H",
        action="append",
        help=say("what changes without this head (layer.head, both from 0)"),
    )
    add(
        "--eager",
        action="store_true",
        help=say(
            "keep the weights that a Hugging Face model gives itself, where nobody can listen: no q, k, v; memory n²"
        ),
    )
    add("--watch", action="store_true", help=say("how heads formed while a run trained"))
    add("--demo", action="store_true", help=say("traces of real models that come with qkv"))
    add("--save", type=Path, metavar="FILE", help=say("keep the trace (.safetensors)"))
    add("--trace", type=Path, metavar="FILE", help=say("open a kept trace instead of a model"))


# What each way to look has no use for: asked for all the same, it is refused rather than ignored.
APART = {
    "syntax": "text file from_ to layer head part cross words tokens out png patterns without save eager watch demo trace",
    "watch": "text file patterns without save eager demo trace",
    "demo": "file model eager trace",
    "trace": "text file model eager",
}


def run(options: argparse.Namespace) -> None:
    """Trace, then show, draw and write what was asked for."""
    _check(options)
    if options.syntax is not None:
        _syntax(options)
        return
    if options.watch:
        _watch(options)
        return
    model = tokenizer = None
    if options.demo:
        trace = _demo(options)
    elif options.trace is not None:
        if not options.trace.exists():  # before torch is loaded
            raise Problem("there is no trace {file}", file=options.trace)
        from ..tracing.views.traces import Trace

        trace = Trace.load(options.trace)
    else:
        trace, model, tokenizer = _trace(options)
    part = _part(options, trace)
    for word, side in ((options.from_, False), (options.to, True)):
        if word is not None:
            trace.place(word, part, keys=side)  # refuses a word that isn't there
            if not options.words and trace.tokens(part, keys=side).is_part_of_character(word):
                options.tokens = True  # 岸₂ has a row of its own only among tokens
    _tell(options, trace, part)
    layer, head = _choose(options, trace, part)
    _show(options, trace, part, layer, head)
    if part in ("encoder", "decoder") and f"{part}.{layer}" in trace.routing:
        _experts(trace, part, layer)
    if options.patterns:
        print("\n" + trace.patterns(part=part).show())
    if options.without:
        _without(options, trace, model, tokenizer)
    if options.save is not None:
        trace.save(options.save)
        print(say("wrote {path}", path=options.save))
    if options.png is not None:
        from ..draw import plots

        plots.head(trace, layer, head, by=_by(options), part=part, path=options.png)
        print(say("wrote {path}", path=options.png))
    if options.out is not None:
        _page(options, trace, part, layer, head)


def _check(options: argparse.Namespace) -> None:
    """Refuse, before any work, what can't be done or would be left undone."""
    for file, endings in ((options.png, FIGURES), (options.out, (".html", ".htm")), (options.save, None)):
        if file is not None:
            check_place(file, endings)
    for way, others in APART.items():
        for other in others.split():
            if _given(options, way) and _given(options, other):
                raise Problem(
                    "{one} doesn't go with {other}: leave one of them out", one=_flag(way), other=_flag(other)
                )
    if options.cross and options.part not in (None, "cross"):
        raise Problem(
            "{one} doesn't go with {other}: leave one of them out", one="--cross", other=f"--part {options.part}"
        )
    if options.without and (options.demo or options.trace is not None):
        raise Problem("--without needs the model itself, not a kept trace: give --model")
    if not options.demo and options.to is not None and options.from_ is None:
        raise Problem("--to is the word that is looked at: say which word looks, too, --from WORD")
    if options.watch and options.from_ is not None and options.to is None:
        raise Problem("--watch follows the link between two words: give --to as well as --from")


def _given(options: argparse.Namespace, name: str) -> bool:
    value = getattr(options, name)
    return value is not None and value is not False


def _flag(name: str) -> Any:
    return Message("a text") if name == "text" else "--text" if name == "file" else "--" + name.strip("_")


def _page(
    options: argparse.Namespace, trace: Trace, part: str, layer: int, head: int, title: str | None = None
) -> None:
    """Write the page, which opens at what the terminal showed and in its language, and say what it carries."""
    from ..draw.page import page

    linked = options.from_ is not None and options.to is not None and not _looks_ahead(options, trace, part)
    focus = (options.from_, options.to) if linked else None
    whole: dict[str, list[int]] = {}
    with bar(say("writing the page")) as progress:
        page(
            trace,
            options.out,
            title=title,
            focus=focus,
            layers=[layer],
            lang=language(),
            progress=progress,
            told=whole.update,
            first=(part, layer, head),
            by=_by(options),
        )
    print(
        say(
            "wrote {path} ({size}): open it in a browser, no network needed",
            path=options.out,
            size=f"{options.out.stat().st_size / 1e6:.1f} MB",
        )
    )
    _carried(trace, whole, part, layer if options.layer is not None else None)


def _carried(trace: Trace, whole: dict[str, list[int]], part: str, asked: int | None) -> None:
    """Where not every layer fitted into the page: which did, and what became of the one that was asked for."""
    if asked is not None and asked not in whole[part]:
        print(
            say(
                "Layer {layer} of the {part}, which was asked for, did not fit into the page: it is there as an "
                "overview only.",
                layer=asked,
                part=say(PARTS[part]),
            )
        )
    for name in trace.parts:
        layers = trace.n_layer(name)
        if len(whole[name]) < layers:
            key = (
                _(
                    "The page has room for these of the {layers} {part} layers in full: {whole}. The others are there as "
                    "an overview."
                )
                if whole[name]
                else _(
                    "The page has no room for any of the {layers} {part} layers in full: they are there as an overview."
                )
            )
            print(say(key, part=say(PARTS[name]), whole=all_of(whole[name]) if whole[name] else "", layers=layers))


def _by(options: argparse.Namespace) -> str:
    """What rows and columns stand for."""
    return "words" if options.words else "tokens" if options.tokens else "characters"


CAT = "The cat sat on the mat because it was tired"


def demos() -> list[tuple[Path, Trace]]:
    """The traces that ship with the package, the cat first."""
    from ..tracing.views.traces import Trace

    places = sorted(DEMOS.glob("*.safetensors"), key=lambda place: (place.stem != "cat-smollm2", place.stem))
    return [(place, Trace.load(place)) for place in places]


def _demo(options: argparse.Namespace) -> Trace:
    """The shipped trace of the text that was named, or the cat's."""
    for place, trace in demos():
        print(say("{name}: {model} on “{text}”", name=place.stem, model=trace.model, text=trace.text))
    print()
    chosen = demos()[0][1] if options.text is None else demo_of(options.text)
    if chosen is None:
        raise Problem("no trace of “{text}” ships with qkv: give one of the texts above, or none", text=options.text)
    if chosen.text == CAT:
        options.from_, options.to = options.from_ or "it", options.to or "cat"
    elif options.to is not None and options.from_ is None:
        raise Problem("--to is the word that is looked at: say which word looks, too, --from WORD")
    return chosen


def demo_of(text: str | None) -> Trace | None:
    """The shipped trace of this very text, if there is one."""
    return next((trace for _, trace in demos() if trace.text == text), None)


def _trace(options: argparse.Namespace) -> tuple[Trace, Any, Any]:
    text = whole(options.text, options.file, EXAMPLES[0])
    name = options.model or ("opus-zh-en" if _chinese(text) else "smollm2")
    try:
        model, tokenizer = open_any(name, yes=options.yes, eager=options.eager)
    except (Problem, OSError) as problem:  # the cache can't be written to, or the disk is full
        if options.model is not None or (shipped := demo_of(text)) is None:
            raise
        print(
            say(
                "The model isn't here ({reason}).\nThis is the same sentence from the trace that ships with qkv, "
                "recorded from that model; any other text needs the model itself.",
                reason=quoted(problem),
            )
        )
        return shipped, None, None
    from ..tracing.record.recorder import trace

    _check_model(options, model, tokenizer, text)
    with bar(say("reading the text")) as progress, passing(model, progress):
        seen = trace(model, text, tokenizer, name=name, eager=options.eager)
    return seen, model, tokenizer


def _check_model(options: argparse.Namespace, model: Any, tokenizer: Any, text: str) -> None:
    """Refuse heads and words that aren't there before the model has read the text."""
    from ..tracing.record.model_protocol import model_of
    from ..tracing.record.tokenizer_protocol import ids_of, reader_of
    from ..tracing.study import edits

    if options.without:
        edits.find(model, options.without)
    asked = model_of(model)
    if asked.foreseen and any(_given(options, name) for name in ("part", "cross", "layer", "head")):
        part = "cross" if options.cross else options.part or next(iter(asked.heads()))
        numbers = ("*" if number is None else str(number) for number in (options.layer, options.head))
        edits.find(model, ".".join([part, *numbers]))
    if asked.kind != "encoder-decoder":  # whose own words are yet to come
        tokens = reader_of(tokenizer).tokens(ids_of(text, tokenizer)[0])
        for word in (options.from_, options.to):
            if word is not None:
                tokens.find(word)


def _chinese(text: str) -> bool:
    return any("\u4e00" <= c <= "\u9fff" for c in text)


def _part(options: argparse.Namespace, trace: Trace) -> str:
    return "cross" if options.cross else options.part or trace.parts[0]


def _tell(options: argparse.Namespace, trace: Trace, part: str) -> None:
    sides = [trace.tokens(part, keys=side) for side in (False, True)]
    heads = dict(layers=trace.n_layer(part), heads=trace.n_head(part))
    print(
        say(
            "{model} · {part}: {layers} layers × {heads} heads on {tokens} tokens (layers and heads count from 0)",
            model=trace.model,
            part=say(PARTS[part]),
            **heads,
            tokens=_sizes(map(len, sides)),
        )
    )
    if "mixers" in trace.parts and len(trace.parts) > 1:
        other = "mixers" if part != "mixers" else trace.parts[0]
        print(
            say(
                "These are layers {layers}; --part {other} shows {others}.",
                layers=all_of(trace.layers(part)),
                other=other,
                others=all_of(trace.layers(other)),
            )
        )
    elif part in trace.numbers and part != "mixers":
        print(
            say(
                "Attention is in these layers alone: {layers}. The others have none.", layers=all_of(trace.layers(part))
            )
        )
    joined = [len(side.groups()) for side in sides]
    if _by(options) == "characters" and max(joined) <= MOST_SHOWN and joined != [len(side) for side in sides]:
        print(
            say(
                "(parts of characters are joined: {groups} characters and tokens; --tokens shows every token)",
                groups=_sizes(joined),
            )
        )
    if part == "cross":
        print(f"  {_joined(sides[1])} → {_joined(sides[0])}")
        if most := trace.more.get("cut"):
            print(
                say(
                    "(cut: after {most} tokens the translation had not ended; what is shown is its beginning)",
                    most=most,
                )
            )


def _sizes(sides: Iterable[int]) -> str:
    queries, keys = sides
    return f"{queries}" if queries == keys else f"{queries} × {keys}"


def _joined(tokens: Any) -> str:
    """The text again, without its special tokens."""
    return "".join(text for text, first, end in tokens.whole if not any(tokens.special[first:end])).strip()


def _choose(options: argparse.Namespace, trace: Trace, part: str) -> tuple[int, int]:
    """The head to show: the one named, or taken away; else the one that links --from and --to best, else the most telling."""
    from ..tracing.views.head_ranking import first_shown, links

    ranked = None
    away = re.fullmatch(rf"(?:{part}\.)?(\d+)\.(\d+)", (options.without or [""])[0])
    if away and options.layer is None and options.head is None and options.to is None:
        return first_shown(trace, part, int(away[1]), int(away[2]))
    if _looks_ahead(options, trace, part):
        print(
            "\n"
            + say(
                "{model} is causal ({part}): {one} cannot look ahead to {other}, which comes later; swap --from and --to",
                model=trace.model,
                part=say(PARTS[part]),
                one=options.from_,
                other=options.to,
            )
        )
    elif options.from_ is not None and options.to is not None:
        ranked = links(trace, options.from_, options.to, _by(options), part=part)
        print(
            "\n"
            + say("Heads that link {one} to {other} (layer.head from 0, weight):", one=options.from_, other=options.to)
        )
        for layer, head, weight in ranked[:5]:
            longest = max(1.0, *(abs(each) for _, _, each in ranked))
            print(f"  {layer:>3}.{head:<3} {weight:.2f}  {'█' * round(abs(weight) / longest * 30)}")
    with bar(say("looking at every head")) as progress:
        return first_shown(trace, part, options.layer, options.head, linked=ranked, progress=progress)


def _looks_ahead(options: argparse.Namespace, trace: Trace, part: str) -> bool:
    """True if --to comes after --from in a part that is causal: no head links the two."""
    from ..tracing.views.head_ranking import looks_ahead

    given = options.from_ is not None and options.to is not None
    return given and looks_ahead(trace, options.from_, options.to, _by(options), part=part)


def _show(options: argparse.Namespace, trace: Trace, part: str, layer: int, head: int) -> None:
    from ..draw import derivation, mixer_derivation, terminal
    from ..mixers.calls import Mixing
    from ..tracing.views.word_map import stand, view

    asking, asked = trace.tokens(part), trace.tokens(part, keys=True)
    long = max(len(side.groups(_by(options))) for side in (asking, asked)) > MOST_SHOWN
    # Rows of cells don't add up to 1, nor do those that lose a share to a sink.
    title = _("{part} layer {layer}, head {head}: each row is a token that looks, and its numbers add up to 1")
    if long:
        title = _("{part} layer {layer}, head {head}: tokens that look downwards, those looked at across")
    elif part == "mixers":
        title = _(
            "{part} layer {layer}, head {head}: each row is a token, and how much of every value it takes; below 0 is taken away, and rows don't add up to 1"
        )
    elif part == "cross":
        title = _(
            "cross layer {layer}, head {head}: each row is a token about to be said, and where in the source it looks (sum 1)"
        )
    elif not isinstance(call := trace.call(layer, part), Mixing) and call.sinks is not None:
        title = _(
            "{part} layer {layer}, head {head}: each row is a token that looks; its numbers and what its sink takes add up to 1"
        )
    print("\n" + say(title, layer=layer, head=head, part=say(PARTS[part])))
    if long:
        bins = MOST_SHOWN
        while terminal.together(bins, [str(len(asking))]) > 1:  # a narrow terminal: larger cells
            bins -= 1
        table = trace.map(layer, head, bins=bins, part=part)
        each = -(-len(asking) // bins), -(-len(asked) // bins)
        print(
            say(
                "(a long text: each cell is the mean of {rows} × {cols} weights, shaded relative to the strongest "
                "cell)",
                rows=each[0],
                cols=each[1],
            )
        )
        scale = max(float(abs(table).max()), 1e-9)
        starts = [str(i * each[0]) for i in range(table.shape[0])]
        draw(terminal.heatmap(table, starts, [""] * table.shape[1], top=scale))
    else:
        mark = None
        if options.from_ is not None and options.to is not None:
            mark = stand(asking, options.from_, _by(options))[0], stand(asked, options.to, _by(options))[0]
        draw(terminal.whole_map(view(trace, layer, head, _by(options), part=part), mark))
    if options.from_ is not None:
        print(
            "\n"
            + (mixer_derivation if part == "mixers" else derivation).row(
                trace, layer, head, options.from_, _by(options), part=part
            )
        )


def _experts(trace: Trace, part: str, layer: int) -> None:
    """Which experts each token took after it had looked: as many tokens as a map shows."""
    took, tokens = trace.experts(layer, part=part), trace.tokens(part)
    title = say(
        "layer {layer}: the {each} of {count} experts that each token took, best first",
        layer=layer,
        each=took.chosen.shape[1],
        count=took.count,
    )
    print("\n" + title)
    shown = tokens.numbered[:MOST_SHOWN]
    wide = max(map(text_grid.width, shown))
    for word, numbers, shares in zip(shown, took.chosen, took.shares, strict=False):
        print(
            f"  {text_grid.left(word, wide)}  "
            + "  ".join(f"{n:>3} {s:4.0%}" for n, s in zip(numbers, shares, strict=True))
        )
    if len(tokens) > MOST_SHOWN:
        print(say("  … and {more} tokens more", more=len(tokens) - MOST_SHOWN))


def _without(options: argparse.Namespace, trace: Trace, model: Any, tokenizer: Any) -> None:
    if model is None:
        raise Problem("--without needs the model itself, not a kept trace: give --model")
    from ..tracing.study.effects import without

    effect = without(model, tokenizer, trace.text, options.without)
    if effect.said is not None:
        key = (
            _("Without {heads} the translation stays the same: {before}")
            if effect.said[0] == effect.said[1]
            else _("Without {heads} the translation changes.\nbefore: {before}\nwithout: {after}")
        )
        print("\n" + say(key, heads=", ".join(effect.heads), before=effect.said[0], after=effect.said[1]))
        return
    print(
        "\n"
        + say(
            "Without {heads}, {moved} of the next token's probability goes elsewhere:",
            heads=", ".join(effect.heads),
            moved=f"{effect.moved:.0%}",
        )
    )
    wide = max((text_grid.width(word) for word, _, _ in effect.words), default=0)
    titles = say("with it"), say("without")
    print(f"  {' ' * wide}  {titles[0]:>7}  {titles[1]:>7}")
    for word, before, after in effect.words:
        print(f"  {text_grid.left(word, wide)}  {before:7.1%}  {after:7.1%}  {'█' * round(30 * after)}")
    tokens = trace.tokens(keys=True)
    for word, _before, _after in effect.words:
        if tokens.is_part_of_character(word) or re.fullmatch(r"(<[0-9A-F]{2}>)+", word):
            print(say("{token} is a part of a character, which other characters may share.", token=word))


def _syntax(options: argparse.Namespace) -> None:
    from ..tracing.study.syntax import syntax

    if options.model is None:
        raise which_model("see")
    model, tokenizer = open_any(options.model, yes=options.yes)
    with bar(say("reading sentences")) as progress:
        relations = syntax(model, tokenizer, options.syntax or None, progress=progress)
    print(relations.show())
    print(say("Layers and heads count from 0."))


def _watch(options: argparse.Namespace) -> None:
    if options.model is None:
        raise Problem("--watch shows a run: give its folder, --model RUN")
    from ..disk.run_folder import WATCH, numbered

    files = list(numbered(Path(options.model) / WATCH, ".safetensors").values())
    if not files:
        raise _unwatched(Path(options.model))
    with bar(say("opening {name}", name=options.model)):
        from ..draw import terminal
        from ..draw.plots import MOMENTS
        from ..tracing.views.traces import Trace
        from ..tracing.views.word_map import stand, view

        traces = [Trace.load(file) for file in files]
    last = traces[-1]
    part = _part(options, last)
    _tell(options, last, part)
    layer, head = _choose(options, last, part)
    title = _("How layer {layer}, head {head} formed, over {n} evaluations:")
    if len(files) == 1:
        title = _("Layer {layer}, head {head} at the only evaluation so far:")
    print("\n" + say(title, layer=layer, head=head, n=len(files)))
    linked = options.from_ is not None and options.to is not None and not _looks_ahead(options, last, part)
    shown = sorted({0, len(traces) // 2, len(traces) - 1})
    if not linked and len(shown) < len(traces):
        print(
            say(
                "Shown are the first, the middle and the last; --from and --to follow a link through all of them, --png "
                "draws up to {n}.",
                n=MOMENTS,
            )
        )
    weights = []
    for trace in traces if linked else ():
        at = [
            stand(trace.tokens(part, keys=side), word, _by(options))[0]
            for word, side in ((options.from_, False), (options.to, True))
        ]
        weights.append(float(view(trace, layer, head, _by(options), part=part).weights[at[0], at[1]]))
    longest = max(1.0, *map(abs, weights)) if weights else 1.0  # a mixer's may be of any size, and below 0
    for number, trace in enumerate(traces):
        step = trace.more.get("step", files[number].stem)
        if linked:
            print(f"  {step:>7}  {weights[number]:.2f}  {'█' * round(abs(weights[number]) / longest * 30)}")
        elif number in shown and len(trace.tokens(part).groups(_by(options))) <= MOST_SHOWN:
            print("\n" + say("step {step}", step=step))
            draw(terminal.whole_map(view(trace, layer, head, _by(options), part=part)))
    if options.png is not None:
        from ..draw import plots

        plots.growth(traces, layer, head, by=_by(options), part=part, lang=language(), path=options.png)
        print(say("wrote {path}", path=options.png))
    if options.out is not None:
        step = last.more.get("step", files[-1].stem)
        print(say("The page is of the last evaluation, step {step}.", step=step))
        _page(options, last, part, layer, head, title=last.model + " · " + say("step {step}", step=step))


def _unwatched(run: Path) -> Problem:
    """Why a run has no attention to show: it never kept any, or the first is still to come."""
    from ..disk.run_folder import first_look

    if (step := first_look(run)) is not None:
        return Problem(
            "{run} keeps its attention at every evaluation, and the first comes at step {step}: look again then",
            run=run,
            step=step,
        )
    return Problem('{run} kept no attention: train with  qkv train … --watch "a sentence"', run=run)
