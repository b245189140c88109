"""qkv caption: describe a picture in words, and show where each word attends."""

import argparse
import json
from pathlib import Path

from ..i18n import Problem, echo, language, say
from .model_options import model_arguments, open_model
from .output_path import FIGURES, check_output

EXAMPLES = [
    "qkv caption --demo",
    "qkv caption digit.png --demo",
    "qkv caption digit.png --demo --png looked.png -o looked.html",
    "qkv caption digit.png --demo --head 2",
]
DEMO = Path(__file__).parent.parent / "demo" / "pictures"
TRAINING_COMMAND = "python tools/make_captioner.py"


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("picture", type=Path, nargs="?", help=say("a picture, such as PNG or JPEG (default with --demo: an example)"))
    model_arguments(parser)
    add("--demo", action="store_true", help=say("the small captioner that comes with qkv: digits and shapes"))
    add("--layer", type=int, metavar="L", help=say("cross-attention of this layer, from 0 (the last)"))
    add("--head", type=int, metavar="H", help=say("of this head alone, from 0 (the mean of all)"))
    add("-o", "--out", type=Path, metavar="PAGE.html", help=say("write a page"))
    add("--png", type=Path, metavar="FILE", help=say("draw it: .png, .svg or .pdf"))
    add("--json", action="store_true", help=say("as JSON"))


def run(options: argparse.Namespace) -> None:
    """Print the captions in both languages, the output language first, with the patches that each word attends to."""
    for file, endings in ((options.png, FIGURES), (options.out, (".html", ".htm"))):
        if file is not None:
            check_output(file, endings)
    picture = DEMO / "example.png" if options.demo and options.picture is None else options.picture
    if picture is None:
        raise Problem("give a picture, as in  {example}", example=EXAMPLES[1])
    if options.model is None and not options.demo:
        raise Problem(
            "say which model: --demo is the small captioner that comes with qkv, --model FOLDER is one of your own"
        )
    from ..text import picture_tokens

    pixels = picture_tokens.downscale(picture_tokens.crop(picture_tokens.read(picture)))
    model, tokenizer = open_model(str(DEMO) if options.demo else options.model, "caption", yes=options.yes)
    from ..tracing.study.caption_attention import caption

    languages = sorted(picture_tokens.LANGUAGE_SIGNS, key=lambda lang: lang != language())
    captions = [caption(model, tokenizer, pixels, lang, layer=options.layer, head=options.head) for lang in languages]
    from ..draw import caption_picture as drawing

    if options.json:
        attention = {
            item.lang: {
                "text": item.text,
                "words": [{"word": word.word, "patches": word.patches.round(6).tolist()} for word in item.words],
            }
            for item in captions
        }
        print(json.dumps({"picture": pixels.astype(int).tolist(), **attention}, ensure_ascii=False))
    else:
        if options.demo:
            echo(
                "a small model that ships with qkv, it knows digits and four shapes; made by: {command}",
                command=TRAINING_COMMAND,
            )
        for item in captions:
            print(f"\n{item.text}\n{drawing.terminal(pixels, item)}")
    if options.png is not None:
        drawing.figure(pixels, captions, path=options.png)
    if options.out is not None:
        drawing.page(pixels, captions, options.out, title=picture.name)
    for file in (options.png, options.out):
        if file is not None and not options.json:
            echo("wrote {path}", path=file)
