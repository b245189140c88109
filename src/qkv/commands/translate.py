"""qkv translate: translate with a trained encoder-decoder."""

import argparse
import sys
from pathlib import Path

from ..words import Problem, both, say
from .opening import check_choices, model_arguments, open_model
from .texts import answer_lines, lines, text_arguments

EXAMPLES = [
    'qkv translate "15 Nov 2026" --demo',
    "qkv translate 二〇二六年十一月十五日 --demo",
    "qkv translate 我喜欢玩人工智能。 --model opus-zh-en --beam 4",
    'qkv translate "I love you" --model runs/translate-en-zh --beam 4',
    "cat lines.txt | qkv translate - --model opus-zh-en > translated.txt",
]
DEMO = Path(__file__).parent.parent / "demo" / "dates"
MADE_BY = "python tools/make_demo.py"
DATES = ["15 Nov 2026", "November 15, 2026", "二〇二六年十一月十五日", "2026年11月15日"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    text_arguments(parser, both("one or more sentences", "一句或几句话"), nargs="*", lines=True)
    model_arguments(parser)
    parser.add_argument(
        "--demo",
        action="store_true",
        help=both("the small date translator that comes with qkv", "用 qkv 附带的日期小模型"),
    )
    parser.add_argument(
        "--beam",
        type=int,
        metavar="K",
        help=both(
            "keep the K best beginnings (as the model's files say, else 1)",
            "每步保留最好的 K 个开头（按模型文件的设定，没有则为 1）",
        ),
    )
    parser.add_argument(
        "--most", type=int, default=128, metavar="N", help=both("tokens at most (128)", "最多多少词元（128）")
    )


def run(options: argparse.Namespace) -> None:
    """Each sentence's translation on a line."""
    texts = options.text or (DATES if options.demo and options.file is None else [])
    rows = lines(texts, options.file, EXAMPLES[0])
    texts = [line for text in texts for line in text.splitlines() if line.strip()]  # a model takes a sentence at a time
    check_choices(options)
    if options.beam is not None and options.beam < 1:
        raise Problem("generation.beam", width=options.beam, best=1)
    if options.demo:
        _check_dates(texts, rows)
    model, tokenizer = open_model(str(DEMO) if options.demo else options.model, "translate", yes=options.yes)
    from ..model.batches import in_batches
    from ..model.generate import source_ids, translate_ids
    from ..model.reading import check_context

    if tokenizer.eos is None:
        raise Problem("generation.source.eos")
    most = min(options.most, model.config.context) if model.config.position == "learned" else options.most
    cut = 0

    def source(text: str) -> list[int]:
        ids = source_ids(tokenizer, text)
        check_context(model, [ids], 0, "source")
        return ids

    def translated(sources: list[list[int]]) -> list[str]:
        nonlocal cut
        found = translate_ids(model, tokenizer, sources, width=options.beam, most=most)
        # One that ended by itself is shorter: its end took the last place, unless it was forced to stand there.
        cut += sum(len(ids) >= most - bool(tokenizer.habits.forced_eos_token_id) for ids in found)
        return [tokenizer.decode(ids) for ids in found]

    made = say("translate.demo", command=MADE_BY)
    if rows is not None:
        if options.demo:
            print(made, file=sys.stderr)
        answer_lines(both("translating", "翻译"), rows, source, len, translated)
    else:
        sources = [source(text) for text in texts]
        if options.demo:
            print(made)
        for text, said in zip(texts, in_batches(sources, len, translated), strict=True):
            print(said if len(texts) == 1 and not options.demo else f"{text} → {said}")
    if cut:
        longer = "" if most == options.most else say("translate.cut.context", context=most)
        print(say("translate.cut", n=cut, most=most, longer=longer or say("translate.cut.most")), file=sys.stderr)


def _check_dates(texts: list[str], rows: list[str] | None) -> None:
    """Refuse what the date translator never learned to read: it would answer with a date all the same."""
    from ..text.dates import not_a_date, read_date

    for number, text in enumerate(texts if rows is None else rows):
        if text.strip() and read_date(text) is None:
            problem = not_a_date("translate.demo.date", text)
            raise problem if rows is None else Problem("problem.line", line=number + 1, problem=problem)
