"""qkv classify: label a text."""

import argparse
import json

from ..i18n import Problem, say
from ..terminal import text_grid
from .model_options import model_arguments, open_model
from .text_input import answer_lines, read_lines, text_arguments

EXAMPLES = [
    'qkv classify "A moving film" --model runs/classify-reviews-minilm',
    'qkv classify "A moving film" "Two hours lost" --model runs/classify-reviews-minilm',
    'qkv classify "A moving film" --model ./my-bert-folder --json',
    "cut -f1 reviews-test.tsv | qkv classify - --model runs/classify-reviews-minilm > labels.tsv",
]
BAR = 30  # width of the bar for probability 1


def arguments(parser: argparse.ArgumentParser) -> None:
    text_arguments(parser, say("one or more texts"), nargs="*", by_line=True)
    model_arguments(parser)
    parser.add_argument("--json", action="store_true", help=say("as JSON"))


def run(options: argparse.Namespace) -> int:
    """Print each label with its probability; for lines, the likeliest label, a tab and its probability."""
    rows = read_lines(options.text, options.file, EXAMPLES[0])
    if rows is not None and options.json:
        raise Problem("{option} goes with one text, not with lines: leave it out", option="--json")
    model, tokenizer = open_model(options.model, "classify", yes=options.yes)
    from ..evaluation.classification import classify, probabilities, require_classifier, text_ids

    require_classifier(model)
    labels = model.config.output.labels
    if rows is not None:

        def label_batch(batch: list[list[int]]) -> list[str]:
            return [f"{labels[int(row.argmax())]}\t{float(row.max()):.4f}" for row in probabilities(model, batch)]

        return answer_lines(say("reading"), rows, lambda row: text_ids(model, tokenizer, row), len, label_batch)
    predictions = classify(model, tokenizer, options.text)
    if options.json:
        items = [{"text": text, "labels": shares} for text, shares in zip(options.text, predictions, strict=True)]
        print(json.dumps(items, ensure_ascii=False, indent=2))
        return 0
    label_width = max(text_grid.width(label) for label in labels)
    for text, shares in zip(options.text, predictions, strict=True):
        if len(options.text) > 1:
            print(text)
        for label, share in shares.items():
            print(f"  {text_grid.left(label, label_width)}  {share:6.1%}  {'█' * round(BAR * share)}")
    return 0
