"""qkv translate: translate with a trained encoder-decoder."""

import argparse
import sys
from pathlib import Path

from ..i18n import Problem, _, echo, say
from .model_options import check_sampling, model_arguments, open_model
from .text_input import answer_lines, read_lines, text_arguments

EXAMPLES = [
    'qkv translate "15 Nov 2026" --demo',
    "qkv translate 二〇二六年十一月十五日 --demo",
    "qkv translate 我喜欢玩人工智能。 --model opus-zh-en --beam 4",
    'qkv translate "I love you" --model runs/translate-en-zh --beam 4',
    "cat lines.txt | qkv translate - --model opus-zh-en > translated.txt",
]
DEMO = Path(__file__).parent.parent / "demo" / "dates"
TRAINING_COMMAND = "python tools/make_demo.py"
DATES = ["15 Nov 2026", "November 15, 2026", "二〇二六年十一月十五日", "2026年11月15日"]


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text_arguments(parser, say("one or more sentences"), nargs="*", by_line=True)
    model_arguments(parser)
    add("--demo", action="store_true", help=say("the small date translator that comes with qkv"))
    add("--beam", type=int, metavar="K", help=say("keep the K best beginnings (as the model's files say, else 1)"))
    add("--most", type=int, default=128, metavar="N", help=say("tokens at most (128)"))


def run(options: argparse.Namespace) -> int:
    """Print the translation of each sentence on a line."""
    texts = options.text or (DATES if options.demo and options.file is None else [])
    rows = read_lines(texts, options.file, EXAMPLES[0])
    texts = [line for text in texts for line in text.splitlines() if line.strip()]  # one sentence per line
    check_sampling(options)
    if options.beam is not None and options.beam < 1:
        raise Problem(
            "width is {width} and best is {best}: give a width of 1 or more and ask for 1 to width texts",
            width=options.beam,
            best=1,
        )
    if options.demo:
        for text in texts if rows is None else ():
            _check_date(text)
    model, tokenizer = open_model(str(DEMO) if options.demo else options.model, "translate", yes=options.yes)
    from ..generation.batching import in_batches
    from ..generation.decoding import source_ids, translate_ids
    from ..generation.prefill import check_context

    if tokenizer.eos is None:
        raise Problem("the tokenizer has no eos token, which ends a source text: was it made for translation?")
    most = min(options.most, model.config.context) if model.config.position == "learned" else options.most
    cut = code = 0

    def source(text: str) -> list[int]:
        if options.demo:
            _check_date(text)
        ids = source_ids(tokenizer, text)
        check_context(model, [ids], 0, "source")
        return ids

    def translated(sources: list[list[int]]) -> list[str]:
        nonlocal cut
        outputs = translate_ids(model, tokenizer, sources, width=options.beam, most=most)
        # Outputs that ended are shorter, because eos takes a position, unless eos is forced at the last one.
        cut += sum(len(ids) >= most - bool(tokenizer.habits.forced_eos_token_id) for ids in outputs)
        return [tokenizer.decode(ids) for ids in outputs]

    notice = say("a small model that ships with qkv, trained on dates alone by: {command}", command=TRAINING_COMMAND)
    if rows is not None:
        if options.demo:
            print(notice, file=sys.stderr)
        code = answer_lines(say("translating"), rows, source, len, translated)
    else:
        sources = [source(text) for text in texts]
        if options.demo:
            print(notice)
        for text, translation in zip(texts, in_batches(sources, len, translated), strict=True):
            print(translation if len(texts) == 1 and not options.demo else f"{text} → {translation}")
    if cut:
        advice = _("the model has {context} positions; translate shorter pieces")
        longer = say("--most N allows more") if most == options.most else say(advice, context=most)
        sentence = _("({n} cut after {most} tokens, where the translation had not ended: {longer})")
        echo(sentence, sys.stderr, n=cut, most=most, longer=longer)
    return code


def _check_date(text: str) -> None:
    """Raise for texts that aren't dates: the date translator would write a date anyway."""
    from ..text.dates import not_a_date, read_date

    if text.strip() and read_date(text) is None:
        raise not_a_date(
            _(
                "{text} is not a date in a form that this small model learned, and it can only write dates: give "
                "one from {first} to {last}, written like {forms}; for sentences use  --model opus-zh-en"
            ),
            text,
        )
