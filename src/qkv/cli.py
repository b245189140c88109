"""The command line: `qkv VERB …`. Each verb is a module of commands/, imported only when it is called.

Uses argparse because all of its messages can be translated and it imports quickly.
"""

import argparse
import importlib
import itertools
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NoReturn

from . import __version__, i18n
from .i18n import Problem, _, say
from .process import memory, streams
from .terminal import screen, text_grid

# verb: (example, description)
VERBS: dict[str, tuple[str, str]] = {
    "learn": ("qkv learn", _("graded exercises, from q·k by hand to a GPT that trains")),
    "steps": ('qkv steps "我 爱 北京"', _("attention computed step by step, with true numbers")),
    "masks": ("qkv masks causal window:3 --n 12", _("draw which token may attend to which")),
    "lab": ("qkv lab scaling", _("measured experiments: scaling, memory, distance, heads, …")),
    "check": ("qkv check mymodel.py:MultiHeadAttention", _("name the mistake in attention you wrote")),
    "train": ("qkv train lm --text mybook.txt", _("train a GPT, a BERT, a translator or a classifier")),
    "eval": ("qkv eval --model smollm2 --text mybook.txt", _("evaluate a model: perplexity, BLEU, accuracy, …")),
    "generate": ('qkv generate "Once upon a time" --model smollm2', _("continue a text with a trained GPT")),
    "chat": ("qkv chat --model smollm2", _("chat with an instruct model")),
    "fill": ('qkv fill "the [MASK] sat" --model runs/mlm-mybook', _("fill in masked words with a trained BERT")),
    "translate": ('qkv translate "15 Nov 2026" --demo', _("translate with a trained encoder-decoder")),
    "classify": ('qkv classify "Good" --model runs/classify-reviews-minilm', _("label a text, with probabilities")),
    "caption": ("qkv caption digit.png --demo", _("describe a picture in words, and show where each word attends")),
    "export": ("qkv export runs/lm-mybook --to hf", _("export a model to a folder that transformers loads")),
    "see": ('qkv see "The cat sat on the mat" --model smollm2', _("show any head of any model, exactly")),
    "studio": ("qkv studio", _("attention live in the browser: switch heads off, compare")),
    "importance": ('qkv importance "The cat sat" --model smollm2', _("measure which heads a model needs")),
    "models": ("qkv models get smollm2", _("list, download and inspect models by name")),
    "data": ("qkv data get shakespeare", _("download data sets by name, and tokenize text")),
}
GROUPS: dict[str, tuple[str, ...]] = {
    _("Learn"): ("learn", "steps", "masks", "lab"),
    _("Check"): ("check",),
    _("Build and train"): tuple("train eval generate chat fill translate classify caption export".split()),
    _("See"): ("see", "studio", "importance"),
    _("Models and data"): ("models", "data"),
}
# What to try first; none of these needs a download.
FIRST = (
    ("qkv see --demo", _("where a real model looks")),
    ('qkv steps "我 爱 北京"', _("attention by hand, on a sentence of your own")),
    ("qkv learn", _("write it yourself, exercise by exercise")),
    ("qkv check mymodel.py", _("find the mistake in attention you wrote")),
    ("qkv train lm --text mybook.txt", _("train a GPT on a text of your own")),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 success, 2 an error of the user's, 1 a bug of ours."""
    streams.open_missing_streams()
    _use_passive_waiting()
    memory.keep_freed_memory()
    _use_utf8_output()
    _translate_argparse()
    with screen.escaped_output(), warnings.catch_warnings():
        warnings.simplefilter("always", i18n.Notice)
        warnings.showwarning = partial(_show_warning, warnings.showwarning, set())
        return _main(arguments)


def _show_warning(
    default: Callable[..., None], printed: set[str], message: Warning | str, *args: object, **kwargs: object
) -> None:
    """Print each Notice once, in the output language; leave other warnings to Python."""
    if not isinstance(message, i18n.Notice):
        default(message, *args, **kwargs)
    elif str(message) not in printed:
        printed.add(str(message))
        complain(message.say())


def _main(arguments: Sequence[str] | None) -> int:
    try:
        code = _run(_with_language(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()  # so that a full disk or a closed pipe raises here and not at exit
        return code
    except BrokenPipeError:  # `qkv … | head`
        forget_output()
        return 0
    except KeyboardInterrupt:
        print(say("\nstopped"), file=sys.stderr)
        return 130
    except i18n.Problem as problem:
        sentence = problem.say()
    except OSError as error:
        forget_output()
        sentence = _os_error_message(error)
    except Exception as error:
        if os.environ.get("QKV_DEBUG"):
            raise
        if (out_of_memory := memory.explain(error)) is None:
            bug = i18n.Message(
                "this is a bug in qkv, not a mistake of yours ({error}). Please report it; QKV_DEBUG=1 shows the traceback",
                error=f"{type(error).__name__}: {error}".split("\n")[0],
            )
            print(say("qkv: {sentence}", sentence=bug), file=sys.stderr)
            return 1
        sentence = out_of_memory.say()
    complain(say("qkv: {sentence}", sentence=sentence))
    return 2


def complain(sentence: str) -> None:
    """Print to stderr; under torchrun only the process of rank 0 prints."""
    if os.environ.get("RANK", "0") == "0":
        print(sentence, file=sys.stderr)


def _with_language(arguments: Sequence[str]) -> list[str]:
    """Set the output language from --lang, which may stand anywhere, and return the other arguments."""
    rest: list[str] = []
    requested = None
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word == "--lang":
            requested = next(words, None)
            if requested is None:
                languages = i18n.one_of(i18n.LANGUAGES)
                raise i18n.Problem("--lang needs a language after it: {languages}", languages=languages)
        elif word.startswith("--lang="):
            requested = word.removeprefix("--lang=")
        else:
            rest.append(word)
    os.environ["QKV_LANG"] = i18n.language(requested)
    return rest


def _run(arguments: list[str]) -> int:
    first, *rest = arguments or ["--help"]
    if first == "--version":
        print(f"qkv {__version__}")
        return 0
    if first == "help" and rest:
        first, *rest = [*rest, "--help"]
    if first in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if first.startswith("-"):
        raise i18n.Problem("{option} needs a verb before it; see  qkv --help", option=first)
    if first not in VERBS:
        near = i18n.nearest(first, VERBS)
        sentence = (
            _("unknown verb {verb}: did you mean {near}? See  qkv {near} --help")
            if near
            else _("unknown verb {verb}; the verbs are {verbs}. See  qkv --help")
        )
        raise i18n.Problem(sentence, verb=first or '""', verbs=i18n.all_of(VERBS), near=near)
    command = importlib.import_module(f"qkv.commands.{first}")
    parser = _parser(first, command.EXAMPLES)
    command.arguments(parser)
    # Only for --help: `_with_language` has removed it.
    parser.add_argument("--lang", choices=i18n.LANGUAGES, help=say("language of the output"))
    return command.run(parser.parse_args(rest)) or 0


def _parser(verb: str, examples: Sequence[str]) -> argparse.ArgumentParser:
    _example, line = VERBS[verb]
    return _Parser(
        prog=f"qkv {verb}",
        description=say(line),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join([say("examples:"), *("  " + line for line in examples)]),
        allow_abbrev=False,
    )


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser that suggests the nearest option and raises Problems."""

    def parse_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        """Check the options first, so that a misspelt option is reported before the missing argument that it causes."""
        words = list(args or ())
        options = self._options(words)
        for word in words[: words.index("--")] if "--" in words else words:
            if word.startswith("--") and (name := word.partition("=")[0]) not in options:
                bare = [option[2:] for option in options]  # without the dashes, which would count as similarity
                near = next((option for option in bare if option.startswith(name[2:])), "") or i18n.nearest(
                    name[2:], bare
                )
                sentence = (
                    _("{verb} has no option {option}: did you mean {near}? See  {verb} --help")
                    if near
                    else _("{verb} has no option {option}; see  {verb} --help")
                )
                raise i18n.Problem(sentence, option=name, verb=self.prog, near=f"--{near}")
        parsed, rest = self.parse_known_args(words, namespace)
        if rest and rest[0].startswith("-") and len(rest[0]) > 1:
            raise i18n.Problem("{verb} has no option {option}; see  {verb} --help", option=rest[0], verb=self.prog)
        if rest:
            raise i18n.Problem(
                "{verb} has an extra argument {rest}: put a text of several words in quotes; see  {verb} --help",
                rest=" ".join(rest),
                verb=self.prog,
            )
        return parsed

    def _options(self, words: list[str]) -> list[str]:
        """Return all long options, with those of the subcommand among the words."""
        options = [option for option in self._option_string_actions if option.startswith("--")]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name in [word for word in words if word in action.choices][:1] or action.choices:
                    options += [option for option in action.choices[name]._option_string_actions if option[:2] == "--"]
        return sorted(set(options), key=lambda option: (len(option), option))

    def error(self, message: str) -> NoReturn:
        """Raise argparse's error as a Problem, without the usage."""
        raise i18n.Problem("{error}; see  {verb} --help", error=message, verb=self.prog)

    def _get_value(self, action: argparse.Action, arg_string: str) -> object:
        """Parse the numbers of all options, with our error messages."""
        number = action.type
        if number not in NUMBERS or not callable(number):
            return super()._get_value(action, arg_string)
        option = "/".join(action.option_strings) or action.dest
        try:
            value = number(arg_string)
            if isinstance(value, int) and abs(value) > i18n.LARGEST:
                raise i18n.too_large(option, value)
            return value
        except ValueError:
            raise i18n.Problem(NUMBERS[number], option=option, value=repr(arg_string)) from None

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            raise i18n.unknown("/".join(action.option_strings) or self.prog, value, action.choices)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> object:
        """Refuse empty values: a shell turns an unset variable into "", which as a path is the current folder."""
        for option in action.option_strings[-1:]:
            # argparse turns `--layer=--` into [].
            if "--" in arg_strings or ("" in arg_strings and option not in MAY_BE_EMPTY):
                raise i18n.Problem("{option} is empty: give it a value, or leave it out", option=option)
        return super()._get_values(action, arg_strings)

    def format_help(self) -> str:
        """Replace the ASCII colon after argparse's headings; Chinese has another."""
        headings = "|".join(re.escape(i18n.translated(name)) for name in ("positional arguments", "options"))
        return re.sub(rf"^({headings}):$", say("{heading}:", heading=r"\1"), super().format_help(), flags=re.MULTILINE)


def _overview() -> str:
    """Return the text of `qkv --help`: first commands, then the verbs by group, with examples if the terminal is wide enough."""
    columns = shutil.get_terminal_size((200, 24)).columns  # pipes and files have no width and get everything
    rows = _in_columns([VERBS[verb] for verbs in GROUPS.values() for verb in verbs])
    if max(map(text_grid.width, rows)) > columns:
        rows = _in_columns([(verb, VERBS[verb][1]) for verbs in GROUPS.values() for verb in verbs])
    verb_rows = iter(rows)
    lines = [say("qkv: from softmax(QKᵀ/√d)V to a Transformer you can look into."), ""]
    lines += [say("Start with these:"), *_in_columns(FIRST), ""]
    for name, verbs in GROUPS.items():
        lines += [say("{heading}:", heading=say(name)), *itertools.islice(verb_rows, len(verbs)), ""]
    lines.append(say("More on a verb, with examples: qkv help VERB    中文: --lang zh"))
    lines.append(say("In Python: from qkv import attend, masks, MultiHeadAttention"))
    lines.append(say("The book, in a checkout of qkv: make docs-serve"))
    return "\n".join(lines)


def _in_columns(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return a line for each command and its description."""
    column = max(text_grid.width(command) for command, _line in rows) + 2
    return [f"  {text_grid.left(command, column)}{say(line)}" for command, line in rows]


def _use_passive_waiting() -> None:
    """Make waiting OpenMP threads sleep instead of spin, unless the environment sets their policy.

    Beside another busy process, a spinning thread takes the core from the thread that it waits for: SmolLM2 generated 3
    tokens a second instead of 17. OpenMP reads the variable once, when PyTorch is loaded.
    """
    if "torch" not in sys.modules and not any(name in os.environ for name in WAITING):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def _use_utf8_output() -> None:
    """Write UTF-8 also on Windows consoles and with LANG=C, and escape what can't be encoded."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Flush after every line, so that the log of a killed run is complete.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def forget_output() -> None:
    """Discard unwritten output if stdout is broken; otherwise Python tries again at exit and prints an error."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _os_error_message(error: OSError) -> str:
    """Return the message of an OSError with the file's name."""
    reason = i18n.refused(error)
    # Problem shortens long file names.
    return say(reason) if error.filename is None else Problem("{why}: {file}", why=reason, file=error.filename).say()


def _translate_argparse() -> None:
    """Replace the gettext functions of argparse, in this process, by ours."""
    argparse._ = i18n.translated  # type: ignore[attr-defined]
    argparse.ngettext = _plural  # type: ignore[attr-defined]


def _plural(singular: str, plural: str, n: int) -> str:
    return i18n.translated(singular if n == 1 or i18n.language() != "en" else plural)


NUMBERS: dict[object, str] = {  # the error message for a value that is not of this type
    int: _("{option} is {value}: give a whole number"),
    float: _("{option} is {value}: give a number, such as 0.5"),
}
MAY_BE_EMPTY = ("--system",)  # no system prompt, not even the model's own

# Messages of argparse; `_translate_argparse` has them translated.
ARGPARSE = (
    _("usage: "),
    _("positional arguments"),
    _("options"),
    _("show this help message and exit"),
    _("expected one argument"),
    _("expected at least one argument"),
    _("the following arguments are required: %s"),
    _("argument %(argument_name)s: %(message)s"),
    _("expected at most one argument"),
    _("expected %s argument"),
    _("ignored explicit argument %r"),
    _("one of the arguments %s is required"),
    _("not allowed with argument %s"),
)
