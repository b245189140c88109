"""qkv eval: evaluate a model on a text, a translator on pairs, a classifier on labelled texts."""

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..i18n import Problem, _, echo, say
from ..library import store
from ..terminal import text_grid
from ..terminal.progress import bar
from .model_options import missing_model, model_arguments, open_any, wrong_kind
from .option_checks import check_range, explicit_options
from .text_input import PIPE, check_text, hint_at_file, read_source

if TYPE_CHECKING:
    from ..evaluation.text_metrics import Losses, PairScore, TextScore
    from ..model.transformer import Transformer
    from ..text import Tokenizer

EXAMPLES = [
    "qkv eval --model smollm2 --text mybook.txt",
    "qkv eval --model runs/lm-mybook --text mybook.txt --context 64 --stride 16",
    'qkv eval "The cat sat on the mat" --model smollm2 --tokens',
    "qkv eval --model opus-zh-en --pairs zh-en.tsv --beam 4",
    "qkv eval --model runs/translate-dates --pairs dates.tsv --each",
    "qkv eval --model runs/classify-reviews-minilm --pairs reviews-test.tsv",
    "qkv eval --model smollm2 --text mybook.txt --json",
]
TEXT_OPTIONS, PAIR_OPTIONS = "context stride tokens", "beam most each"
DEFAULT_MOST = 128  # tokens of a translation, by default


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("text", nargs="?", help=say("a text") + say("; - takes it from a pipe"))
    add("--text", dest="file", metavar="FILE", help=say("a text from a file, or a data set (see qkv data)"))
    add("--pairs", metavar="TSV", help=say("source TAB target, or text TAB label, one pair a line"))
    model_arguments(parser)
    add("--context", type=int, metavar="N", help=say("tokens that the model may read before each (its context)"))
    add("--stride", type=int, metavar="N", help=say("tokens between windows (half of the context): fewer is slower"))
    add("--tokens", action="store_true", help=say("the loss of every token"))
    add("--beam", type=int, metavar="K", help=say("keep the K best beginnings (as the model's files say, else 1)"))
    add("--most", type=int, metavar="N", help=say("tokens at most (128)"))
    add("--each", action="store_true", help=say("every pair: its loss, the output and the expected text"))
    add("--json", action="store_true", help=say("as JSON"))


def run(options: argparse.Namespace) -> int:
    """Print loss, perplexity and bits per byte; for pairs also BLEU, chrF and exact match; for labels accuracy and F1."""
    _check(options)
    return _pairs(options) if options.pairs is not None else _text(options)


def _check(options: argparse.Namespace) -> None:
    """Refuse invalid options before anything is loaded."""
    for name in ("context", "stride", "beam", "most"):
        check_range(f"--{name}", getattr(options, name), 1)
    sources = [each for each in (options.text, options.file, options.pairs) if each is not None]
    if not sources:
        raise Problem("say what to measure it on: --text FILE or --pairs TSV, as in  {example}", example=EXAMPLES[0])
    if len(sources) > 1:
        raise Problem("give one thing to measure it on: a text, --text FILE or --pairs TSV")
    names, needed = (TEXT_OPTIONS, "--text") if options.pairs is not None else (PAIR_OPTIONS, "--pairs")
    for option in explicit_options(options, names):
        raise Problem("{option} goes with {what}: leave it out", option=option, what=needed)
    if options.model is None:
        raise missing_model("eval")


def _text(options: argparse.Namespace) -> int:
    text, name = _text_and_name(options)
    model, tokenizer = open_any(options.model, yes=options.yes, words=True)
    from ..evaluation.text_metrics import score_text
    from ..tracing.record.model_protocol import model_of

    if (kind := model_of(model).kind) == "encoder":  # has no next-token loss
        raise wrong_kind(options.model, kind, "eval --text", "decoder")
    with bar(say("reading {name}", name=name)) as progress:
        score = score_text(model, tokenizer, text, context=options.context, stride=options.stride, progress=progress)
    pieces = _pieces(tokenizer, score) if options.tokens else []
    if options.json:
        content = {"model": options.model, "text": name, **_numbers(score), "context": score.context}
        content |= {"stride": score.stride, "windows": score.windows}
        if options.tokens:
            content["pieces"] = [{"text": text, "loss": loss} for text, loss in pieces]
        return _print_json(content)
    from ..tracing.views.token_labels import show

    for text, loss in pieces:
        print(f"{loss:8.3f}  {show(text)}")
    if pieces:
        print()
    size = dict(tokens=len(score.nats), bytes=score.n_bytes)
    echo("{model} on {name}: {tokens:,} tokens, {bytes:,} bytes", model=options.model, name=name, **size)
    _print_losses(score)
    if score.windows > 1:
        echo(
            "read in {score.windows:,} windows of {score.context:,} tokens, a new one every {score.stride:,}: each token is "
            "scored once, after the {least:,} to {score.context:,} before it",
            score=score,
            least=score.context - score.stride + 1,
        )
    return 0


def _text_and_name(options: argparse.Namespace) -> tuple[str, str]:
    """Return the text and its name."""
    if options.file is not None and options.file != PIPE:
        text, name = read_source(options.file), options.file
    elif options.text in (None, PIPE):
        text, name = read_source(PIPE), PIPE
    else:
        check_text(options.text)
        hint_at_file(options.text)
        text, name = options.text, text_grid.clip(options.text, 40)
    if not text.strip():
        raise Problem("{name} is empty: there is nothing to measure on", name=name or '""')
    return text, name


def _pieces(tokenizer: "Tokenizer", score: "TextScore") -> list[tuple[str, float]]:
    """Return tokens joined to whole characters, with their losses summed; the first token has none."""
    from ..tracing.record.tokenizer_protocol import reader_of

    costs = [0.0, *score.nats.tolist()]
    groups = reader_of(tokenizer).tokens(score.ids).whole
    return [(text, sum(costs[first:end])) for text, first, end in groups if end > 1]


def _pairs(options: argparse.Namespace) -> int:
    from ..text.pairs import sift_pairs

    pairs, problems = sift_pairs(store.locate(options.pairs))
    model, tokenizer = open_any(options.model, yes=options.yes, words=True)
    from ..evaluation.classification import is_classifier

    if is_classifier(model):
        return _labels(options, model, tokenizer, pairs, problems)
    from ..tracing.record.model_protocol import model_of

    if (kind := model_of(model).kind) != "encoder-decoder":
        raise Problem(
            "{model} is a model of kind {kind}: qkv eval --pairs needs a translator, such as opus-zh-en or a run of  qkv "
            "train translate, or a classifier, a run of  qkv train classify",
            model=options.model,
            kind=kind,
        )
    from ..evaluation.text_metrics import score_pairs, without_metrics

    if notice := without_metrics():
        warnings.warn(notice, stacklevel=1)
    most = DEFAULT_MOST if options.most is None else options.most
    with bar(say("translating")) as progress:
        score = score_pairs(model, tokenizer, pairs, width=options.beam, most=most, progress=progress)
    skipped = _print_problems([*problems, *score.problems])
    if options.json:
        return _print_json(_pairs_as_json(options, score, most, skipped), skipped)
    _print_pairs(options, score, most)
    return _report_skipped(skipped)


def _print_problems(problems: list[tuple[int, Problem]]) -> list[dict[str, object]]:
    """Print the problems sorted by line, and return them for JSON."""
    problems = sorted(problems, key=lambda each: each[0])
    for line, problem in problems:
        echo("line {line}: {problem}", sys.stderr, line=line, problem=problem)
    return [{"line": line, "problem": str(problem)} for line, problem in problems]


def _report_skipped(problems: Sequence[object]) -> int:
    """Print how many lines were left out, and return the exit code."""
    if problems:
        echo("lines left out, as named above: {n}", sys.stderr, n=len(problems))
    return 1 if problems else 0


def _print_json(content: dict[str, Any], problems: Sequence[object] = ()) -> int:
    """Print JSON and return the exit code."""
    print(json.dumps(content, ensure_ascii=False, indent=2))
    return 1 if problems else 0


def _pairs_as_json(
    options: argparse.Namespace, score: "PairScore", most: int, skipped: Sequence[object]
) -> dict[str, object]:
    metrics = {"bleu": score.bleu, "chrf": score.chrf}
    return {
        "model": options.model,
        "pairs": options.pairs,
        **_numbers(score),
        "lines": len(score.pairs),
        "exact_match": score.exact,
        "cut": score.cut,
        "most": most,
        **{name: None if metric is None else vars(metric) for name, metric in metrics.items()},
        "skipped": skipped,
        "each": [
            {
                "line": p.line,
                "source": p.source,
                "target": p.target,
                "said": p.translation,
                "loss": p.loss,
                "cut": p.cut,
            }
            for p in score.pairs
        ],
    }


def _print_pairs(options: argparse.Namespace, score: "PairScore", most: int) -> None:
    for pair in score.pairs if options.each else ():
        right = pair.translation.strip() == pair.target.strip()
        print(f"{pair.line:6}  {pair.loss:7.3f}  {'✓' if right else '✗'}  {pair.source} → {pair.translation}")
        if not right:
            print(f"{'':18}  {say('expected: {target}', target=pair.target)}")
    if options.each:
        print()
    size = {"pairs": len(score.pairs), "tokens": len(score.nats), "bytes": score.n_bytes}
    heading = _("{model} on {name}: {pairs:,} pairs, {tokens:,} target tokens, {bytes:,} bytes")
    echo(heading, model=options.model, name=options.pairs, **size)
    _print_losses(score)
    for word, metric in (("BLEU", score.bleu), ("chrF", score.chrf)):
        if metric is not None:
            print(f"{word} {metric.score:.2f}  ({metric.signature})")
    echo("exact match {share:.1%}", share=score.exact)
    if score.cut:
        echo(
            "{n} of {all} translations were cut after {most} tokens, before their end, and count as they are: --most N "
            "allows more",
            sys.stderr,
            n=score.cut,
            all=len(score.pairs),
            most=most,
        )


def _labels(
    options: argparse.Namespace,
    model: "Transformer",
    tokenizer: "Tokenizer",
    pairs: list[tuple[int, str, str]],
    problems: list[tuple[int, Problem]],
) -> int:
    from ..evaluation.classification import score_labels

    for option in explicit_options(options, "beam most"):
        raise Problem("{option} goes with translations: leave it out for a classifier", option=option)
    with bar(say("reading {name}", name=options.pairs)) as progress:
        score = score_labels(model, tokenizer, pairs, progress=progress)
    skipped = _print_problems([*problems, *score.problems])
    if options.json:
        content: dict[str, object] = {"model": options.model, "pairs": options.pairs, "lines": len(score.lines)}
        content |= {"accuracy": score.accuracy, "macro_f1": score.macro_f1, "loss": score.loss}
        content["classes"] = [each._asdict() for each in score.classes]
        content |= {"labels": list(score.labels), "confusion": score.confusion.tolist()}
        content["skipped"] = skipped
        content["each"] = [
            {"line": each.line, "text": each.text, "label": each.label, "said": score.predicted(each)}
            | {"probabilities": dict(zip(score.labels, each.shares, strict=True))}
            for each in score.lines
        ]
        return _print_json(content, skipped)
    for each in score.lines if options.each else ():
        predicted = score.predicted(each)
        share = each.shares[score.labels.index(predicted)]
        right = "✓" if predicted == each.label else f"✗ {say('expected: {target}', target=each.label)}"
        print(f"{each.line:6}  {share:6.1%}  {predicted}  {right}  {each.text}")
    if options.each:
        print()
    echo("{model} on {name}: {n:,} texts", model=options.model, name=options.pairs, n=len(score.lines))
    echo("accuracy {s.accuracy:.1%} · macro F1 {s.macro_f1:.3f} · loss {s.loss:.4f} nats per text", s=score)
    print()
    heads = [say("label"), say("texts"), say("precision"), say("recall"), "F1"]
    rows = [[c.label, f"{c.texts:,}", f"{c.precision:.3f}", f"{c.recall:.3f}", f"{c.f1:.3f}"] for c in score.classes]
    _table([heads, *rows])
    print()
    echo("confusion: rows are true labels, columns predicted labels")
    table = [[label, *map(str, row)] for label, row in zip(score.labels, score.confusion.tolist(), strict=True)]
    _table([["", *score.labels], *table])
    return _report_skipped(skipped)


def _table(rows: list[list[str]]) -> None:
    """Print a table, its first column left-aligned, the others right-aligned."""
    for line in text_grid.aligned(rows):
        print(f"  {line}")


def _numbers(score: "Losses") -> dict[str, float]:
    numbers = {"loss": score.loss, "perplexity": score.perplexity, "bits_per_byte": score.bits_per_byte}
    return {"tokens": len(score.nats), "bytes": score.n_bytes, **numbers}


def _print_losses(score: "Losses") -> None:
    perplexity = f"{score.perplexity:.4g}" if score.perplexity >= 1000 else f"{score.perplexity:.3f}"
    sentence = _(
        "loss {score.loss:.4f} nats per token · perplexity {perplexity} · {score.bits_per_byte:.4f} bits per byte"
    )
    echo(sentence, score=score, perplexity=perplexity)
