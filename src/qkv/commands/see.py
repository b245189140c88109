"""qkv see: where the heads of a model look, on a text."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import grid
from ..words import Problem, both, language, one_of, say
from .opening import model_arguments, open_model
from .progress import bar

EXAMPLES = [
    'qkv see "The cat sat on the mat because it was tired" --from it --to cat',
    "qkv see --demo",
    "qkv see --file chapter.txt --model smollm2 -o chapter.html",
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
    add("text", nargs="?", help=both("the text", "文本"))
    add("--file", type=Path, metavar="FILE", help=both("a text from a file", "从文件读文本"))
    model_arguments(parser)
    add("--from", dest="from_", metavar="WORD", help=both("the word that looks (its row)", "看的词（一行）"))
    add(
        "--to",
        metavar="WORD",
        help=both("the word that is looked at: which heads link the two?", "被看的词：哪些头把两者连起来？"),
    )
    add("--layer", type=int, metavar="L", help=both("from 0", "层，从 0 开始"))
    add("--head", type=int, metavar="H", help=both("from 0", "头，从 0 开始"))
    add("--part", choices=["encoder", "decoder", "cross"], help=both("which part of an encoder-decoder", "哪一部分"))
    add("--cross", action="store_true", help=both("the same as --part cross", "等于 --part cross"))
    add("--words", action="store_true", help=both("join tokens to words", "把词元合并成词"))
    add(
        "-o", "--out", type=Path, metavar="PAGE.html", help=both("write a page with every head", "写成网页，包含所有头")
    )
    add("--png", type=Path, metavar="FILE", help=both("draw it: .png, .svg or .pdf", "画成图：.png、.svg 或 .pdf"))
    add("--patterns", action="store_true", help=both("what each head does", "每个头在做什么"))
    add(
        "--syntax",
        nargs="?",
        const="",
        metavar="FILE.conllu",
        help=both(
            "heads against grammar, on our own sentences or a CoNLL-U file", "头与语法关系：用自带的句子或 CoNLL-U 文件"
        ),
    )
    add("--without", metavar="L.H", action="append", help=both("what changes without this head", "去掉这个头会怎样"))
    add("--watch", action="store_true", help=both("how heads formed while a run trained", "训练过程中头是怎样形成的"))
    add("--demo", action="store_true", help=both("traces of real models that come with qkv", "qkv 附带的真实模型记录"))
    add("--save", type=Path, metavar="FILE", help=both("keep the trace (.safetensors)", "保存记录（.safetensors）"))
    add("--trace", type=Path, metavar="FILE", help=both("open a kept trace instead of a model", "打开保存的记录"))


def run(options: argparse.Namespace) -> None:
    """Trace, then show, draw and write what was asked for."""
    if options.watch:
        _watch(options)
        return
    if options.syntax is not None:
        _syntax(options)
        return
    model = tokenizer = None
    for file, endings in ((options.png, (".png", ".svg", ".pdf")), (options.out, (".html", ".htm"))):
        if file is not None and file.suffix.lower() not in endings:
            raise Problem("see.suffix", file=file, endings=one_of(endings))
    if options.demo:
        for place, found in demos():
            print(say("see.demo", name=place.stem, model=found.model, text=found.text))
        print()
        found = demo_of(options.text) or demos()[0][1]
        if found.text == CAT:
            options.from_, options.to = options.from_ or "it", options.to or "cat"
    elif options.trace is not None:
        from ..tracing.trace import Trace

        found = Trace.load(options.trace)
    else:
        found, model, tokenizer = _trace(options)
    part = "cross" if options.cross else options.part or _main_part(found)
    for word, side in ((options.from_, False), (options.to, True)):
        if word is not None:
            found.place(word, part, keys=side)  # refuses a word that isn't there
    _tell(found, part)
    layer, head = _choose(options, found, part)
    _show(options, found, part, layer, head)
    if options.patterns:
        print("\n" + found.patterns(part=part).show())
    if options.without:
        _without(options, found, model, tokenizer)
    if options.save is not None:
        found.save(options.save)
        print(say("see.saved", path=options.save))
    if options.png is not None:
        from ..draw import plots

        plots.head(found, layer, head, words=options.words, part=part, path=options.png)
        print(say("see.saved", path=options.png))
    if options.out is not None:
        from ..draw.page import page

        focus = None if options.from_ is None or options.to is None else (options.from_, options.to)
        with bar(both("writing the page", "正在写网页")) as progress:
            page(found, options.out, focus=focus, layers=[layer], progress=progress)
        print(say("see.page", path=options.out, size=f"{options.out.stat().st_size / 1e6:.1f} MB"))


CAT = "The cat sat on the mat because it was tired"


def demos() -> list[tuple[Path, Any]]:
    """The traces that ship with the package, the cat first."""
    from ..tracing.trace import Trace

    places = sorted(DEMOS.glob("*.safetensors"), key=lambda place: (place.stem != "cat-smollm2", place.stem))
    return [(place, Trace.load(place)) for place in places]


def demo_of(text: str | None) -> Any:
    """The shipped trace of this very text, if there is one."""
    return next((found for _, found in demos() if found.text == text), None)


def _trace(options: argparse.Namespace) -> tuple[Any, Any, Any]:
    if (options.text is None) == (options.file is None):
        raise Problem("see.text", example=EXAMPLES[0])
    text = options.text if options.file is None else read_text(options.file)
    if not text.strip():
        raise Problem("see.text", example=EXAMPLES[0])
    name = options.model or ("opus-zh-en" if _chinese(text) else "smollm2")
    try:
        model, tokenizer = open_any(name, yes=options.yes)
    except Problem as problem:
        shipped = demo_of(text)
        if options.model is not None or shipped is None:
            raise
        print(say("see.shipped", reason=problem.say()))
        return shipped, None, None
    from ..tracing.recorder import trace

    found = trace(model, text, tokenizer, name=name)
    context = getattr(model.config, "context", None) or getattr(model.config, "max_position_embeddings", None)
    longest = max(len(tokens) for items in found.queries.values() for tokens in items)
    if context is not None and longest > context:
        print(say("see.context", tokens=longest, context=context), file=sys.stderr)
    return found, model, tokenizer


def open_any(name: str, *, yes: bool = False) -> tuple[Any, Any]:
    """A model of ours, or, where qkv doesn't know the layout, the same folder through transformers."""
    try:
        return open_model(name, "see", yes=yes)
    except Problem as problem:
        inner = problem.values.get("problem", problem)  # told by a family, wrapped by the file it came from
        if not str(inner.key).startswith("model.family."):
            raise
        try:
            import transformers
        except ImportError:
            raise problem from None
        return _open_theirs(transformers, name)


def _open_theirs(transformers: Any, name: str) -> tuple[Any, Any]:
    """A folder by transformers: nothing of it is executed, unpickled, fetched or drawn at random."""
    from ..model.weights import find

    place = find(name)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    safe = dict(trust_remote_code=False, local_files_only=True)
    try:
        model, told = transformers.AutoModel.from_pretrained(
            place, use_safetensors=True, output_loading_info=True, **safe
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, **safe)
    except Exception as error:  # whatever a folder of another make brings up
        raise Problem("see.transformers", model=name, error=str(error).split("\n")[0][:200]) from None
    lost = [key for key in told["missing_keys"] if "pooler" not in key] + [str(key) for key in told["mismatched_keys"]]
    if lost:
        raise Problem("model.file.misses", file=place, name=sorted(lost)[0])
    return model, tokenizer


def read_text(file: Path) -> str:
    """A text file's text."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise Problem("problem.file.missing", file=file) from None
    except UnicodeDecodeError:
        raise Problem("problem.file.utf8", file=file) from None


def _chinese(text: str) -> bool:
    return any("\u4e00" <= c <= "\u9fff" for c in text)


def _main_part(found: Any) -> str:
    return found.parts[0]


def _tell(found: Any, part: str) -> None:
    queries, keys = len(found.tokens(part)), len(found.tokens(part, keys=True))
    sizes = f"{queries}" if queries == keys else f"{queries} × {keys}"
    print(
        say(
            "see.what", model=found.model, part=part, layers=found.n_layer(part), heads=found.n_head(part), tokens=sizes
        )
    )
    if part == "cross":
        source, target = (found.tokens("cross", keys=side) for side in (True, False))
        print(f"  {_joined(source)} → {_joined(target)}")


def _joined(tokens: Any) -> str:
    """The text again, without its special tokens."""
    return "".join(p for p, special in zip(tokens.pieces, tokens.special, strict=True) if not special).strip()


def _choose(options: argparse.Namespace, found: Any, part: str) -> tuple[int, int]:
    """The head to show: the one named, else the one that links --from and --to best, else the most telling one."""
    linked = options.from_ is not None and options.to is not None
    if linked:
        ranked = found.find(options.from_, options.to, part=part, most=5)
        print("\n" + say("see.links", one=options.from_, other=options.to))
        for layer, head, weight in ranked:
            print(f"  {layer:>3}.{head:<3} {weight:.2f}  {'█' * round(weight * 30)}")
    layers = range(found.n_layer(part)) if options.layer is None else [options.layer]
    heads = range(found.n_head(part)) if options.head is None else [options.head]
    found.head(layers[0], heads[0], part)  # refuses what isn't there
    if linked:
        every = found.find(options.from_, options.to, part=part, most=None)
        return next((layer, head) for layer, head, _ in every if layer in layers and head in heads)
    return telling(found, part, layers, heads)


def telling(found: Any, part: str, layers: Sequence[int], heads: Sequence[int]) -> tuple[int, int]:
    """The head with the strongest link that is neither to itself, to its neighbour, nor to the first token.

    In a cross part, where there are no such places, the head whose words look most sharply at words.
    """
    best, chosen = -1.0, (layers[0], heads[0])
    if len(layers) == len(heads) == 1:
        return layers[0], heads[0]
    for layer in layers:
        for head in heads:
            bins = None if max(len(found.tokens(part)), len(found.tokens(part, keys=True))) <= 1024 else 256
            table = found.map(layer, head, bins=bins, part=part)
            if part == "cross":  # by how sharply words look at words, not at the end of the text
                sides = [~np.array(found.tokens(part, keys=side).special) for side in (False, True)]
                score = float(table[sides[0]][:, sides[1]].max(-1).mean()) if bins is None else float(table.max())
            else:
                i, j = np.indices(table.shape)
                score = float(np.where((np.abs(i - j) > 1) & (j > 0), table, 0).max())
            if score > best:
                best, chosen = score, (layer, head)
    return chosen


def _show(options: argparse.Namespace, found: Any, part: str, layer: int, head: int) -> None:
    from ..draw import terminal

    asking, asked = found.tokens(part), found.tokens(part, keys=True)
    print("\n" + say("see.head.cross" if part == "cross" else "see.head", layer=layer, head=head, part=part))
    if max(len(asking), len(asked)) > MOST_SHOWN:
        table = found.map(layer, head, bins=MOST_SHOWN, part=part)
        each = -(-len(asking) // MOST_SHOWN), -(-len(asked) // MOST_SHOWN)
        print(say("see.pooled", rows=each[0], cols=each[1]))
        scale = max(float(table.max()), 1e-9)
        starts = [str(i * each[0]) for i in range(table.shape[0])]
        print(terminal.heatmap(table / scale, starts, [""] * table.shape[1]))
    elif options.words:
        names = [[word for word, _, _ in side.words] for side in (asking, asked)]
        print(terminal.heatmap(found.map(layer, head, words=True, part=part), *names))
    else:
        mark = None
        if options.from_ is not None and options.to is not None:
            mark = found.place(options.from_, part), found.place(options.to, part, keys=True)
        allowed = found.head(layer, head, part).allowed().numpy()
        table = found.map(layer, head, part=part)
        print(terminal.heatmap(table, asking.shown, asked.shown, allowed=allowed, mark=mark))
    if options.from_ is not None:
        print("\n" + _row(found, part, layer, head, options.from_))


def _row(found: Any, part: str, layer: int, head: int, word: str) -> str:
    """The five steps of one query, a line per key: q·k, scaled, masked, softmax; then the sum of w·v."""
    steps = found.steps(layer, head, query=word, part=part)
    asked = found.tokens(part, keys=True).shown
    columns = [steps.scores[0], steps.scaled[0], steps.masked[0], steps.weights[0]]
    order = np.argsort(-steps.weights[0])[:12]
    table = np.stack(columns, 1)[order]
    titles = ["q·k", "q·k/√d" if np.isclose(steps.scale, steps.q.shape[-1] ** -0.5) else f"q·k×{steps.scale:.3g}"]
    titles += [both("masked", "掩码后"), both("weight", "权重")]
    lines = _turned(found, part, layer, head, word)
    lines.append(say("see.row", word=word, layer=layer, head=head, d=steps.q.shape[-1]))
    lines += ["  " + line for line in grid.numbers(table, [asked[i] for i in order], titles, most=16).split("\n")]
    rest = len(asked) - len(order)
    if rest > 0:
        lines.append("  " + say("see.row.rest", n=rest, sum=float(1 - steps.weights[0][order].sum())))
    lines.append(say("see.row.output"))
    lines += ["  " + line for line in grid.numbers(steps.output, [word], most=10).split("\n")]
    lines.append(say("see.row.same", difference=f"{found.difference(layer, head, query=word, part=part):.0e}"))
    return "\n".join(lines)


def _turned(found: Any, part: str, layer: int, head: int, word: str) -> list[str]:
    """How q was turned by its position, on its first pairs and its last."""
    pairs = found.rotation(layer, head, word, part=part)
    if pairs is None:
        return []
    shown = [*range(min(3, len(pairs))), *([len(pairs) - 1] if len(pairs) > 3 else [])]
    half = len(pairs)
    labels = [f"q{i}, q{i + half}" for i in shown]
    titles = [both("angle", "角度"), both("before", "旋转前"), "", both("after", "旋转后"), ""]
    place = found.place(word, part)
    table = grid.numbers(pairs[shown], labels, titles).split("\n")
    return [say("see.turned", word=word, place=place, pairs=half), *("  " + line for line in table), ""]


def _without(options: argparse.Namespace, found: Any, model: Any, tokenizer: Any) -> None:
    if model is None:
        raise Problem("see.without.model")
    from ..tracing.edit import without

    effect = without(model, tokenizer, found.text, options.without)
    if effect.said is not None:
        key = "see.without.same" if effect.said[0] == effect.said[1] else "see.without.said"
        print("\n" + say(key, heads=", ".join(effect.heads), before=effect.said[0], after=effect.said[1]))
        return
    print("\n" + say("see.without", heads=", ".join(effect.heads), moved=f"{effect.moved:.0%}"))
    wide = max((grid.width(word) for word, _, _ in effect.words), default=0)
    print(f"  {' ' * wide}  {both('before', '原来'):>6}  {both('without', '去掉后'):>7}")
    for word, before, after in effect.words:
        print(f"  {grid.left(word, wide)}  {before:6.1%}  {after:7.1%}  {'█' * round(30 * after)}")


def _syntax(options: argparse.Namespace) -> None:
    from ..tracing.syntax import syntax

    if options.model is None:
        raise Problem("problem.model.none")
    model, tokenizer = open_any(options.model, yes=options.yes)
    with bar(both("reading sentences", "读句子")) as progress:
        found = syntax(model, tokenizer, options.syntax or None, progress=progress)
    print(found.show())


def _watch(options: argparse.Namespace) -> None:
    if options.model is None:
        raise Problem("see.watch.model")
    from ..draw import terminal
    from ..tracing.trace import Trace

    files = sorted((Path(options.model) / "watch").glob("*.safetensors"))
    if not files:
        raise Problem("see.watch.none", run=options.model)
    traces = [Trace.load(file) for file in files]
    last = traces[-1]
    part = "cross" if options.cross else options.part or _main_part(last)
    _tell(last, part)
    layer, head = _choose(options, last, part)
    print("\n" + say("see.watch", layer=layer, head=head, n=len(files)))
    linked = options.from_ is not None and options.to is not None
    shown = sorted({0, len(traces) // 2, len(traces) - 1})
    for number, found in enumerate(traces):
        step = found.more.get("step", files[number].stem)
        if linked:
            weight = float(found.row(layer, head, options.from_, part=part)[found.place(options.to, part, keys=True)])
            print(f"  {step:>7}  {weight:.2f}  {'█' * round(weight * 30)}")
        elif number in shown and len(found.tokens(part)) <= MOST_SHOWN:
            print("\n" + both(f"step {step}", f"第 {step} 步"))
            asking, asked = found.tokens(part).shown, found.tokens(part, keys=True).shown
            print(terminal.heatmap(found.map(layer, head, part=part), asking, asked))
    if options.png is not None:
        from ..draw import plots

        plots.growth(traces, layer, head, part=part, lang=language(), path=options.png)
        print(say("see.saved", path=options.png))
