"""qkv chat: chat with an instruct model."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from ..i18n import Problem, echo, say
from .model_options import SpeedMeter, check_sampling, model_arguments, open_model, sampling_options
from .text_input import read_whole

if TYPE_CHECKING:
    from ..model.transformer import Transformer
    from ..text import Tokenizer

EXAMPLES = [
    "qkv chat --model smollm2",
    'qkv chat "What is the capital of France?" --model smollm2',
    'qkv chat "Tell me a joke." --model model.gguf --system "You are a pirate." --temperature 0.8',
]
DEFAULT_MODEL = "smollm2"
SMALL_MODEL = 1000  # million parameters; smaller models get a warning


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("text", nargs="?", help=say("one question, - takes it from a pipe; without it, a conversation"))
    model_arguments(parser)
    add("--system", metavar="TEXT", help=say("the system prompt"))
    add("--most", type=int, default=400, metavar="N", help=say("tokens per answer (400)"))
    add("--temperature", type=float, metavar="T", help=say("0 takes the likeliest (the model's setting, else 0)"))
    add("--top-p", type=float, metavar="P", help=say("only the likeliest that make up this share"))
    add("--seed", type=int, default=0, metavar="S", help=say("draws the choices (0)"))
    add("--int8", action="store_true", help=say("weights in 8 bits: faster, a little less exact"))
    add("--quiet", action="store_true", help=say("only the answers, without the speed"))


def run(options: argparse.Namespace) -> None:
    """Print one answer, or hold a conversation until the input ends."""
    if options.text is not None:
        options.text = read_whole(options.text, None, EXAMPLES[1])
    check_sampling(options)
    name = options.model or DEFAULT_MODEL
    model, tokenizer = open_model(name, "chat", yes=options.yes, int8=options.int8)
    if tokenizer.template is None:
        raise Problem(
            "{model} has no chat template among its files (chat_template.jinja, or a line in "
            "tokenizer_config.json), so its chat format is unknown: continue a text with  qkv generate",
            model=name,
        )
    if not options.quiet and (millions := model.count() / 1e6) < SMALL_MODEL:
        echo(
            "{model} has {n} million parameters: a model this small writes fluent but often wrong sentences, and "
            "little outside its training language.",
            sys.stderr,
            model=name,
            n=f"{millions:.0f}" if millions >= 1 else f"{millions:.1f}",
        )
    conversation = Conversation(model, tokenizer, options)
    if options.text is not None:
        conversation.answer(options.text)
        return
    if sys.stdin.isatty():
        echo("Chatting with {model}. /new starts over, /quit or Ctrl-D ends, Ctrl-C stops an answer.", model=name)
    while True:
        try:
            text = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if text == "/new":
            conversation.forget()
        elif text == "/quit":
            return
        elif text:
            previous = list(conversation.messages)
            try:
                conversation.answer(text)
            except Problem as problem:  # the conversation continues without this question
                conversation.messages = previous
                print(problem.say(), file=sys.stderr)


class Conversation:
    """A conversation as a list of messages."""

    def __init__(self, model: "Transformer", tokenizer: "Tokenizer", options: argparse.Namespace) -> None:
        self.model, self.tokenizer, self.options = model, tokenizer, options
        # Small models don't recover from an unlikely token: asked for the capital of France, SmolLM2 answers Paris, but
        # at temperature 0.2 with seed 0 it continued in broken French.
        self.sampling = sampling_options(options, tokenizer, temperature=0.0)
        self.forget()

    def forget(self) -> None:
        """Clear the conversation, except for the system prompt."""
        system = self.options.system
        self.messages: list[dict[str, str]] = [] if system is None else [{"role": "system", "content": system}]

    def answer(self, question: str) -> None:
        """Print the answer while it is generated; Ctrl-C stops the answer, not the conversation."""
        from ..generation.decoding import stream

        self.messages.append({"role": "user", "content": question})
        ids, options, answer = self._prompt(), self.options, ""
        settings: dict[str, Any] = {**self.sampling, "most": options.most, "seed": options.seed}
        meter = SpeedMeter(len(ids))
        try:
            for piece in stream(self.model, self.tokenizer, ids, on_token=meter, **settings):
                answer += piece
                print(piece, end="", flush=True)
        except KeyboardInterrupt:
            if options.text is not None:
                raise
        print()
        self.messages.append({"role": "assistant", "content": answer})
        if not options.quiet:
            meter.report()

    def _prompt(self) -> list[int]:
        """Return the conversation as tokens, without the oldest turns if it exceeds the model's context."""
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
