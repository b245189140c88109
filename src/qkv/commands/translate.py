"""qkv translate: translate with a trained encoder-decoder."""

import argparse
import sys
from pathlib import Path

from ..words import Problem, both, say
from .opening import model_arguments, need_text, open_model

EXAMPLES = [
    'qkv translate "15 Nov 2026" --demo',
    "qkv translate 二〇二六年十一月十五日 --demo",
    "qkv translate 我喜欢玩人工智能。 --model opus-zh-en --beam 4",
    'qkv translate "I love you" --model runs/translate-en-zh --beam 4',
]
DEMO = Path(__file__).parent.parent / "demo" / "dates"
MADE_BY = "python tools/make_demo.py"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("text", nargs="*", help=both("one or more sentences", "一句或几句话"))
    model_arguments(parser)
    parser.add_argument(
        "--demo",
        action="store_true",
        help=both("the small date translator that comes with qkv", "用 qkv 附带的日期小模型"),
    )
    parser.add_argument(
        "--beam",
        type=int,
        default=1,
        metavar="K",
        help=both("keep the K best beginnings (1)", "每步保留最好的 K 个开头（1）"),
    )
    parser.add_argument(
        "--most", type=int, default=128, metavar="N", help=both("tokens at most (128)", "最多多少词元（128）")
    )


def run(options: argparse.Namespace) -> None:
    """Each sentence's translation on a line."""
    if options.demo:
        print(say("translate.demo", command=MADE_BY))
        texts = options.text or ["15 Nov 2026", "November 15, 2026", "二〇二六年十一月十五日", "2026年11月15日"]
    else:
        given = [need_text(text, EXAMPLES[0]) for text in options.text or [None]]
        texts = [
            line for text in given for line in text.splitlines() if line.strip()
        ]  # a model takes a sentence at a time
    model, tokenizer = open_model(str(DEMO) if options.demo else options.model, "translate", yes=options.yes)
    from ..model.generate import source_ids, translate_ids

    if tokenizer.eos is None:
        raise Problem("generation.source.eos")
    most = min(options.most, model.config.context) if model.config.position == "learned" else options.most
    sources = [source_ids(tokenizer, text) for text in texts]
    cut = 0
    for text, ids in zip(texts, translate_ids(model, tokenizer, sources, width=options.beam, most=most), strict=True):
        said = tokenizer.decode(ids)
        print(said if len(texts) == 1 and not options.demo else f"{text} → {said}")
        cut += len(ids) >= most  # one that ended by itself is shorter: its end took the last place
    if cut:
        longer = "" if most == options.most else say("translate.cut.context", context=most)
        print(say("translate.cut", n=cut, most=most, longer=longer or say("translate.cut.most")), file=sys.stderr)
