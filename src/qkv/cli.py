"""The command line: `qkv VERB …`. Each verb is a file in commands/, imported only when it is called.

argparse, because its few words can all be said in Chinese, and `qkv --help` answers at once.
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

# verb: (example, what it does)
VERBS: dict[str, tuple[str, str]] = {
    "learn": ("qkv learn", _("graded exercises, from q·k by hand to a GPT that trains")),
    "steps": ('qkv steps "我 爱 北京"', _("attention computed step by step, with true numbers")),
    "masks": ("qkv masks causal window:3 --n 12", _("draw who may look at whom")),
    "lab": ("qkv lab scaling", _("measured experiments: scaling, memory, distance, heads, …")),
    "check": ("qkv check mymodel.py:MultiHeadAttention", _("name the mistake in attention you wrote")),
    "train": ("qkv train lm --text mybook.txt", _("train a GPT, a BERT, a translator or a classifier")),
    "eval": ("qkv eval --model smollm2 --text mybook.txt", _("how good a model is: perplexity, BLEU, accuracy, …")),
    "generate": ('qkv generate "Once upon a time" --model smollm2', _("let a trained GPT go on with a text")),
    "chat": ("qkv chat --model smollm2", _("talk with an instruct model")),
    "fill": ('qkv fill "the [MASK] sat" --model runs/mlm-mybook', _("let a trained BERT guess hidden words")),
    "translate": ('qkv translate "15 Nov 2026" --demo', _("translate with a trained encoder-decoder")),
    "classify": (
        'qkv classify "Good" --model runs/classify-reviews-minilm',
        _("tell the label of a text, with how sure that is"),
    ),
    "caption": ("qkv caption digit.png --demo", _("tell a picture in words, and show where each word looked")),
    "export": ("qkv export runs/lm-mybook --to hf", _("write a model as a folder that transformers loads")),
    "see": ('qkv see "The cat sat on the mat" --model smollm2', _("look into any head of any model, exactly")),
    "studio": ("qkv studio", _("attention live in the browser: switch heads off, compare")),
    "importance": ('qkv importance "The cat sat" --model smollm2', _("which heads a model needs")),
    "models": ("qkv models get smollm2", _("real models by name: what can be had, and what is inside")),
    "data": ("qkv data get shakespeare", _("data sets by name, and text into tokens")),
}
GROUPS: dict[str, tuple[str, ...]] = {
    _("Learn"): ("learn", "steps", "masks", "lab"),
    _("Check"): ("check",),
    _("Build and train"): tuple("train eval generate chat fill translate classify caption export".split()),
    _("See"): ("see", "studio", "importance"),
    _("Models and data"): ("models", "data"),
}
# What to try first, in this order; none of these needs a download.
FIRST = (
    ("qkv see --demo", _("where a real model looks")),
    ('qkv steps "我 爱 北京"', _("attention by hand, on a sentence of your own")),
    ("qkv learn", _("write it yourself, exercise by exercise")),
    ("qkv check mymodel.py", _("find the mistake in attention you wrote")),
    ("qkv train lm --text mybook.txt", _("train a GPT on a text of your own")),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code: 0 done, 2 a mistake of the user's, told in a sentence, 1 one of ours."""
    streams.open_missing_streams()
    _wait_asleep()
    memory.reuse()
    _print_unicode()
    _teach_argparse()
    with screen.guarded(), warnings.catch_warnings():
        warnings.simplefilter("always", i18n.Notice)
        warnings.showwarning = partial(_notice, warnings.showwarning, set())
        return _main(arguments)


def _notice(
    otherwise: Callable[..., None], said: set[str], message: Warning | str, *where: object, **more: object
) -> None:
    """What a user should know is said in a sentence of their language, once; other warnings come as Python shows them."""
    if not isinstance(message, i18n.Notice):
        otherwise(message, *where, **more)
    elif str(message) not in said:
        said.add(str(message))
        complain(message.say())


def _main(arguments: Sequence[str] | None) -> int:
    try:
        code = _run(_with_language(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()  # so that a full disk or a reader that left shows here, not after the last line
        return code
    except BrokenPipeError:  # `qkv … | head`: the reader has seen enough
        forget_output()
        return 0
    except KeyboardInterrupt:
        print(say("\nstopped"), file=sys.stderr)
        return 130
    except i18n.Problem as problem:
        sentence = problem.say()
    except OSError as error:
        forget_output()
        sentence = _refused(error)
    except Exception as error:
        if os.environ.get("QKV_DEBUG"):
            raise
        if (full := _full(error)) is None:
            told = f"{type(error).__name__}: {error}".split("\n")[0]
            print(
                i18n.say(
                    "qkv: {sentence}",
                    sentence=i18n.say(
                        "this is a bug of qkv, not a mistake of yours ({error}). Please report it; QKV_DEBUG=1 shows the "
                        "traceback",
                        error=told,
                    ),
                ),
                file=sys.stderr,
            )
            return 1
        sentence = full
    complain(i18n.say("qkv: {sentence}", sentence=sentence))
    return 2


def _full(error: Exception) -> str | None:
    """The sentence for memory that is full; None for any other error."""
    from .process import memory

    problem = memory.told(error)
    return None if problem is None else problem.say()


def complain(sentence: str) -> None:
    """To stderr; of several processes that made the same mistake, the first speaks for all."""
    if os.environ.get("RANK", "0") == "0":
        print(sentence, file=sys.stderr)


def _with_language(arguments: Sequence[str]) -> list[str]:
    """The arguments without --lang, which may stand anywhere, and is obeyed from here on, in --help too."""
    rest: list[str] = []
    asked = None
    coming = iter(arguments)
    for word in coming:
        if word == "--":
            rest += [word, *coming]
        elif word == "--lang":
            asked = next(coming, None)
            if asked is None:
                raise i18n.Problem(
                    "--lang needs a language after it: {languages}", languages=i18n.one_of(i18n.LANGUAGES)
                )
        elif word.startswith("--lang="):
            asked = word.removeprefix("--lang=")
        else:
            rest.append(word)
    os.environ["QKV_LANG"] = i18n.language(asked)
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
        key = (
            _("there is no verb {verb}: did you mean {near}? See  qkv {near} --help")
            if near
            else _("there is no verb {verb}; there are {verbs}. See  qkv --help")
        )
        raise i18n.Problem(key, verb=first or '""', verbs=i18n.all_of(VERBS), near=near)
    command = importlib.import_module(f"qkv.commands.{first}")
    parser = _parser(first, command.EXAMPLES)
    command.arguments(parser)
    # For --help alone: it was taken out before.
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
    """argparse, but what it doesn't know is told with what was probably meant."""

    def parse_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        """Options are looked at first: else a missing argument would be told before the misspelt option that is the cause."""
        given = list(args or ())
        known = self._options(given)
        for word in given[: given.index("--")] if "--" in given else given:
            if word.startswith("--") and (name := word.partition("=")[0]) not in known:
                bare = [option[2:] for option in known]  # the dashes are alike in all
                near = next((option for option in bare if option.startswith(name[2:])), "") or i18n.nearest(
                    name[2:], bare
                )
                key = (
                    _("{verb} has no option {option}: did you mean {near}? See  {verb} --help")
                    if near
                    else _("{verb} has no option {option}; see  {verb} --help")
                )
                raise i18n.Problem(key, option=name, verb=self.prog, near=f"--{near}")
        found, rest = self.parse_known_args(given, namespace)
        if rest and rest[0].startswith("-") and len(rest[0]) > 1:
            raise i18n.Problem("{verb} has no option {option}; see  {verb} --help", option=rest[0], verb=self.prog)
        if rest:
            raise i18n.Problem(
                "{verb} doesn't know what to do with {rest}: a text of several words stands in quotes; see  {verb} "
                "--help",
                rest=" ".join(rest),
                verb=self.prog,
            )
        return found

    def _options(self, given: list[str]) -> list[str]:
        """All long options, those of the experiment that was named too."""
        known = [option for option in self._option_string_actions if option.startswith("--")]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name in [word for word in given if word in action.choices][:1] or action.choices:
                    known += [option for option in action.choices[name]._option_string_actions if option[:2] == "--"]
        return sorted(set(known), key=lambda option: (len(option), option))

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found wrong as a Problem, like every other mistake: without the usage."""
        raise i18n.Problem("{what_is_wrong}; see  {verb} --help", what_is_wrong=message, verb=self.prog)

    def _get_value(self, action: argparse.Action, arg_string: str) -> object:
        """Numbers are read here, for every option of every verb."""
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
        """`--text ""` is what a shell makes of an unset variable; as a path it would be the folder one stands in."""
        for option in action.option_strings[-1:]:
            # Of `--layer=--` argparse would make [].
            if "--" in arg_strings or ("" in arg_strings and option not in MAY_BE_EMPTY):
                raise i18n.Problem("{option} is empty: give it a value, or leave it out", option=option)
        return super()._get_values(action, arg_strings)

    def format_help(self) -> str:
        """argparse writes an ASCII colon behind its headings; Chinese has its own."""
        headings = "|".join(re.escape(i18n.translated(name)) for name in ("positional arguments", "options"))
        return re.sub(rf"^({headings}):$", say("{heading}:", heading=r"\1"), super().format_help(), flags=re.MULTILINE)


def _overview() -> str:
    """The first five commands, then every verb in its group, with its example where the terminal is wide enough."""
    columns = shutil.get_terminal_size((200, 24)).columns  # a pipe or a file has no width: it gets all
    rows = _in_columns([VERBS[verb] for verbs in GROUPS.values() for verb in verbs])
    if max(map(text_grid.width, rows)) > columns:
        rows = _in_columns([(verb, VERBS[verb][1]) for verbs in GROUPS.values() for verb in verbs])
    coming = iter(rows)
    lines = [say("qkv: from softmax(QKᵀ/√d)V to a Transformer you can look into."), ""]
    lines += [say("Start with these:"), *_in_columns(FIRST), ""]
    for name, verbs in GROUPS.items():
        lines += [say("{heading}:", heading=say(name)), *itertools.islice(coming, len(verbs)), ""]
    lines.append(say("More on a verb, with examples: qkv help VERB    中文: --lang zh"))
    lines.append(say("In Python: from qkv import attend, masks, MultiHeadAttention"))
    lines.append(say("The book that explains it all, in a checkout of qkv: make docs-serve"))
    return "\n".join(lines)


def _in_columns(rows: Sequence[tuple[str, str]]) -> list[str]:
    """A line for each command and what it does."""
    column = max(text_grid.width(command) for command, _line in rows) + 2
    return [f"  {text_grid.left(command, column)}{say(line)}" for command, line in rows]


def _wait_asleep() -> None:
    """Let threads that wait for each other sleep, not spin, unless the environment says how they shall wait.

    Beside one other busy process, a thread that spins takes the core from the one it waits for: SmolLM2 said 3 tokens a
    second instead of 17. OpenMP asks the environment once, when PyTorch loads it; later this would change nothing here.
    """
    if "torch" not in sys.modules and not any(name in os.environ for name in WAITING):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def _print_unicode() -> None:
    """Windows consoles and LANG=C write ASCII by default; √, ■ and 汉字 need UTF-8, and stray bytes must not stop it."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Line by line, so that a log file shows how far a training is, also of one that was killed.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def forget_output() -> None:
    """If nothing can be written any more, drop what is left: else Python tries again at the end, and complains."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(error: OSError) -> str:
    """What the system refused, in a sentence: a full disk, a missing permission, …"""
    why = i18n.refused(error)
    # A Problem, since that cuts a name that is too long.
    return say(why) if error.filename is None else Problem("{why}: {file}", why=why, file=error.filename).say()


def _teach_argparse() -> None:
    """argparse looks its few words up with gettext: give it ours. (Only in this process, which is ours.)"""
    argparse._ = i18n.translated  # type: ignore[attr-defined]
    argparse.ngettext = lambda one, many, n: i18n.translated(one if n == 1 or i18n.language() != "en" else many)  # type: ignore[attr-defined]


NUMBERS: dict[object, str] = {  # a type, and what is said of a value that isn't one
    int: _("{option} is {value}: give a whole number"),
    float: _("{option} is {value}: give a number, such as 0.5"),
}
MAY_BE_EMPTY = ("--system",)  # no system prompt, not even the model's own

# What argparse says in its own words; `_teach_argparse` has them looked up.
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
