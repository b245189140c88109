"""qkv chat: talk with an instruct model."""

import argparse
import sys
from typing import TYPE_CHECKING

from ..i18n import Problem, echo, say
from .model_options import Pace, check_choices, drawing, model_arguments, open_model
from .text_input import whole

if TYPE_CHECKING:
    from ..model.transformer import Transformer
    from ..text import Tokenizer

EXAMPLES = [
    "qkv chat --model smollm2",
    'qkv chat "What is the capital of France?" --model smollm2',
    'qkv chat "Tell me a joke." --model model.gguf --system "You are a pirate." --temperature 0.8',
]
DEFAULT = "smollm2"
SMALL = 1000  # million parameters: below, a model knows little


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    add("text", nargs="?", help=say("one question, - takes it from a pipe; without it, a conversation"))
    model_arguments(parser)
    add("--system", metavar="TEXT", help=say("how it should behave"))
    add("--most", type=int, default=400, metavar="N", help=say("tokens per answer (400)"))
    add(
        "--temperature",
        type=float,
        metavar="T",
        help=say("0 takes the likeliest each time (as the model's files say, else 0)"),
    )
    add(
        "--top-p",
        type=float,
        metavar="P",
        help=say("only the likeliest that make up this share (as the model's files say, else all)"),
    )
    add("--seed", type=int, default=0, metavar="S", help=say("draws the choices (0)"))
    add("--int8", action="store_true", help=say("weights in 8 bits: faster, a little less exact"))
    add("--quiet", action="store_true", help=say("only the answers, without the speed"))


def run(options: argparse.Namespace) -> None:
    """One answer, or a conversation until the input ends."""
    if options.text is not None:
        options.text = whole(options.text, None, EXAMPLES[1])
    check_choices(options)
    model, tokenizer = open_model(options.model or DEFAULT, "chat", yes=options.yes, int8=options.int8)
    if tokenizer.template is None:
        raise Problem(
            "{model} has no chat template among its files (chat_template.jinja, or a line in "
            "tokenizer_config.json), so how a chat is written for it isn't known: continue a text with  qkv "
            "generate",
            model=options.model or DEFAULT,
        )
    if not options.quiet and (millions := model.count() / 1e6) < SMALL:
        echo(
            "{model} has {n} million parameters: so small a model writes whole sentences and often wrong ones, and little "
            "outside the language it was trained on.",
            sys.stderr,
            model=options.model or DEFAULT,
            n=f"{millions:.0f}" if millions >= 1 else f"{millions:.1f}",
        )
    talk = Talk(model, tokenizer, options)
    if options.text is not None:
        talk.answer(options.text)
        return
    if sys.stdin.isatty():
        echo(
            "Talking with {model}. /new begins anew, /quit or Ctrl-D ends, Ctrl-C stops an answer.",
            model=options.model or DEFAULT,
        )
    while (said := _ask()) is not None:
        if said == "/new":
            talk.forget()
        elif said == "/quit":
            return
        elif said:
            kept = list(talk.messages)
            try:
                talk.answer(said)
            except Problem as problem:  # one question can't be answered: the conversation goes on
                talk.messages = kept
                print(problem.say(), file=sys.stderr)


def _ask() -> str | None:
    """The next line; None at the end of the input."""
    try:
        return input("> " if sys.stdin.isatty() else "").strip()
    except EOFError:
        return None


class Talk:
    """A conversation: what was said so far, as messages."""

    def __init__(self, model: "Transformer", tokenizer: "Tokenizer", options: argparse.Namespace) -> None:
        self.model, self.tokenizer, self.options = model, tokenizer, options
        # Small models, which these are, lose the thread where a draw takes an unlikely word: asked for the capital of
        # France, SmolLM2 says Paris, and at temperature 0.2 with seed 0 it went on in broken French.
        self.drawn = drawing(options, tokenizer, temperature=0.0)
        self.messages: list[dict[str, str]] = []
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        system = self.options.system
        self.messages = [] if system is None else [{"role": "system", "content": system}]

    def answer(self, said: str) -> None:
        """Print the answer as it comes; Ctrl-C ends the answer, not the conversation."""
        from ..generation.decoding import stream

        self.messages.append({"role": "user", "content": said})
        ids = self._prompt()
        options, pace = self.options, Pace(len(ids))
        pieces: list[str] = []
        coming = stream(
            self.model, self.tokenizer, ids, most=options.most, **self.drawn, seed=options.seed, on_token=pace
        )
        try:
            for piece in coming:
                pieces.append(piece)
                print(piece, end="", flush=True)
        except KeyboardInterrupt:
            if options.text is not None:
                raise
        print()
        self.messages.append({"role": "assistant", "content": "".join(pieces)})
        if not options.quiet:
            pace.tell()

    def _prompt(self) -> list[int]:
        """The conversation as tokens; the oldest turns are forgotten when it outgrows the model's context."""
        room = self.model.config.context - self.options.most
        while len(ids := self.tokenizer.chat(self.messages)) > room:
            first = next((i for i, message in enumerate(self.messages[:-1]) if message["role"] != "system"), None)
            if first is None:
                raise Problem(
                    "this takes {tokens} tokens and the context has room for {room} before an answer of {most}: shorten "
                    "it, or lower --most",
                    tokens=len(ids),
                    room=max(room, 0),
                    most=self.options.most,
                )
            del self.messages[first : first + 2]
            echo("(the context is full: the oldest question and answer are forgotten)", sys.stderr)
        return ids
