"""The command line: `qkv VERB …`. Each verb is a file in commands/, imported only when it is called.

argparse, because its few words can all be said in Chinese, and `qkv --help` answers at once.
"""

import argparse
import errno
import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from . import __version__, screen, words
from .words import both

# verb: (example, English, 中文)
VERBS: dict[str, tuple[str, str, str]] = {
    "steps": (
        'qkv steps "我 爱 北京"',
        "attention computed step by step, with true numbers",
        "一步一步计算注意力，每个数都是实际算出来的",
    ),
    "see": (
        'qkv see "The cat sat on the mat because it was tired" --from it --to cat',
        "look into any head of any model, exactly",
        "看任意模型的任意一个头，数值精确",
    ),
    "importance": (
        'qkv importance "The cat sat on the mat" --model smollm2',
        "which heads a model needs",
        "模型离不开哪些头",
    ),
    "masks": (
        "qkv masks causal window:3 --n 12",
        "draw who may look at whom",
        "画出谁可以看谁",
    ),
    "check": (
        "qkv check mymodel.py:MultiHeadAttention",
        "name the mistake in attention you wrote",
        "指出你写的注意力里的错误",
    ),
    "learn": (
        "qkv learn",
        "graded exercises, from q·k by hand to a GPT that trains",
        "带评分的练习，从手算 q·k 到能训练的 GPT",
    ),
    "train": (
        "qkv train lm --text mybook.txt",
        "train a GPT, a BERT or a translator on your own text",
        "用自己的文本训练 GPT、BERT 或翻译模型",
    ),
    "generate": (
        'qkv generate "ROMEO:" --model runs/lm-shakespeare',
        "let a trained GPT go on with a text",
        "让训练好的 GPT 续写",
    ),
    "chat": (
        "qkv chat --model smollm2",
        "talk with an instruct model",
        "与对话模型聊天",
    ),
    "fill": (
        'qkv fill "the [MASK] sat" --model runs/mlm-mybook',
        "let a trained BERT guess hidden words",
        "让训练好的 BERT 猜被遮住的词",
    ),
    "translate": (
        'qkv translate "15 Nov 2026" --demo',
        "translate with a trained encoder-decoder",
        "用训练好的编码器-解码器翻译",
    ),
    "export": (
        "qkv export runs/lm-mybook --to hf",
        "write a model as a folder that transformers loads",
        "把模型写成 transformers 能读取的文件夹",
    ),
    "models": (
        "qkv models get smollm2",
        "real models by name: what can be had, and what is inside",
        "按名字取真实的模型，看它的结构",
    ),
    "lab": (
        "qkv lab scaling",
        "measured experiments: scaling, complexity, memory, distance, heads, …",
        "测量实验：缩放、复杂度、内存、距离、头数……",
    ),
    "data": (
        "qkv data get shakespeare",
        "data sets by name, and text into tokens",
        "按名字取数据集，把文本变成词元",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code: 0 done, 2 a mistake of the user's, told in a sentence, 1 one of ours."""
    _wait_asleep()
    _print_unicode()
    _teach_argparse()
    with screen.guarded(), warnings.catch_warnings():
        warnings.simplefilter("always", words.Notice)
        warnings.showwarning = partial(_notice, warnings.showwarning, set())
        return _main(arguments)


def _notice(otherwise: Callable[..., None], said: set[str], message: Warning | str, *where: Any, **more: Any) -> None:
    """What a user should know is said in a sentence of their language, once; other warnings come as Python shows them."""
    if not isinstance(message, words.Notice):
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
        print(both("\nstopped", "\n已停止"), file=sys.stderr)
        return 130
    except words.Problem as problem:
        sentence = problem.say()
    except OSError as error:
        forget_output()
        sentence = _refused(error)
    except ValueError as error:
        complain(words.say("problem.english", sentence=str(error) or type(error).__name__))
        return 2
    except Exception as error:
        if os.environ.get("QKV_DEBUG"):
            raise
        if (full := _full(error)) is None:
            told = f"{type(error).__name__}: {error}".split("\n")[0]
            print(words.say("problem", sentence=words.say("problem.bug", error=told)), file=sys.stderr)
            return 1
        sentence = full
    complain(words.say("problem", sentence=sentence))
    return 2


def _full(error: Exception) -> str | None:
    """The sentence for memory that is full; None for any other error."""
    from . import memory

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
                raise words.Problem("problem.lang.none", languages=words.one_of(words.LANGUAGES))
        elif word.startswith("--lang="):
            asked = word.removeprefix("--lang=")
        else:
            rest.append(word)
    os.environ["QKV_LANG"] = words.language(asked)
    return rest


def _run(arguments: list[str]) -> int:
    first, *rest = arguments or ["--help"]
    if first == "--version":
        print(f"qkv {__version__}")
        return 0
    if first in ("-h", "--help"):
        print(_overview())
        return 0
    if first.startswith("-"):
        raise words.Problem("problem.option", option=first)
    if first not in VERBS:
        near = words.nearest(first, VERBS)
        key = "problem.verb.near" if near else "problem.verb"
        raise words.Problem(key, verb=first or '""', verbs=words.all_of(VERBS), near=near)
    command = importlib.import_module(f"qkv.commands.{first}")
    parser = _parser(first, command.EXAMPLES)
    command.arguments(parser)
    # For --help alone: it was taken out before.
    parser.add_argument("--lang", choices=words.LANGUAGES, help=both("language of the output", "输出的语言"))
    return command.run(parser.parse_args(rest)) or 0


def _parser(verb: str, examples: Sequence[str]) -> argparse.ArgumentParser:
    _, english, chinese = VERBS[verb]
    return _Parser(
        prog=f"qkv {verb}",
        description=both(english, chinese),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join([both("examples:", "例子："), *("  " + line for line in examples)]),
        allow_abbrev=False,
    )


class _Parser(argparse.ArgumentParser):
    """argparse, but what it doesn't know is told with what was probably meant."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Options are looked at first: else a missing argument would be told before the misspelt option that is the cause."""
        given = list(args)
        known = self._options(given)
        for word in given[: given.index("--")] if "--" in given else given:
            if word.startswith("--") and (name := word.partition("=")[0]) not in known:
                bare = [option[2:] for option in known]  # the dashes are alike in all
                near = next((option for option in bare if option.startswith(name[2:])), "") or words.nearest(
                    name[2:], bare
                )
                key = "problem.option.near" if near else "problem.option.none"
                raise words.Problem(key, option=name, verb=self.prog, near=f"--{near}")
        found, rest = self.parse_known_args(given, namespace)
        if rest and rest[0].startswith("-") and len(rest[0]) > 1:
            raise words.Problem("problem.option.none", option=rest[0], verb=self.prog)
        if rest:
            raise words.Problem("problem.extra", rest=" ".join(rest), verb=self.prog)
        return found

    def _options(self, given: list[str]) -> list[str]:
        """All long options, those of the experiment that was named too."""
        known = [option for option in self._option_string_actions if option.startswith("--")]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name in [word for word in given if word in action.choices][:1] or action.choices:
                    known += [option for option in action.choices[name]._option_string_actions if option[:2] == "--"]
        return sorted(set(known), key=lambda option: (len(option), option))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise words.unknown("/".join(action.option_strings) or self.prog, value, action.choices)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """`--text ""` is what a shell makes of an unset variable; as a path it would be the folder one stands in."""
        for option in action.option_strings[-1:]:
            if "" in arg_strings and option not in MAY_BE_EMPTY:
                raise words.Problem("problem.option.empty", option=option)
        return super()._get_values(action, arg_strings)

    def format_help(self) -> str:
        """argparse writes an ASCII colon behind its headings; Chinese has its own."""
        headings = "|".join(ARGPARSE[name] for name in ("positional arguments", "options"))
        return re.sub(rf"^({headings}):$", r"\1：", super().format_help(), flags=re.MULTILINE)


def _overview() -> str:
    lines = [
        both(
            "qkv: from softmax(QKᵀ/√d)V to a Transformer you can look into.",
            "qkv：从 softmax(QKᵀ/√d)V 到能看到内部的 Transformer。",
        ),
        "",
    ]
    column = max(map(len, VERBS)) + 2
    for verb, (example, english, chinese) in VERBS.items():
        lines += [f"  {verb:{column}}{both(english, chinese)}", f"  {'':{column}}{example}", ""]
    lines.append(
        both(
            "In Python: from qkv import attend, masks, MultiHeadAttention",
            "在 Python 里：from qkv import attend, masks, MultiHeadAttention",
        )
    )
    lines.append(
        both(
            "More on a verb: qkv VERB --help    中文: --lang zh",
            "某个命令的说明：qkv 命令 --help    English: --lang en",
        )
    )
    return "\n".join(lines)


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
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def forget_output() -> None:
    """If nothing can be written any more, drop what is left: else Python tries again at the end, and complains."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(error: OSError) -> str:
    """What the system refused, in a sentence: a full disk, a missing permission, …"""
    key = f"os.{errno.errorcode.get(error.errno or 0)}"
    if key not in words.SENTENCES:
        reason = error.strerror or str(error) or type(error).__name__
        return both(reason, f"系统报告：{reason}")
    return words.say(key) + ("" if error.filename is None else both(": ", "：") + str(error.filename))


def _teach_argparse() -> None:
    """argparse looks its few words up with gettext: give it ours. (Only in this process, which is ours.)"""

    def known(message: str) -> str:
        return ARGPARSE.get(message, message) if words.language() == "zh" else message

    argparse._ = known  # type: ignore[attr-defined]
    argparse.ngettext = lambda one, many, n: known(one) if known(one) != one or n == 1 else many  # type: ignore[attr-defined]


MAY_BE_EMPTY = ("--system",)  # no system prompt, not even the model's own

ARGPARSE = {
    "usage: ": "用法：",
    "positional arguments": "参数",
    "options": "选项",
    "show this help message and exit": "显示这段说明",
    "%(prog)s: error: %(message)s\n": "%(prog)s：%(message)s\n",
    "expected one argument": "后面要有一个值",
    "expected at least one argument": "后面至少要有一个值",
    "the following arguments are required: %s": "缺少参数：%s",
    "argument %(argument_name)s: %(message)s": "参数 %(argument_name)s：%(message)s",
    "expected at most one argument": "后面最多有一个值",
    "expected %s argument": "后面要有 %s 个值",
    "ignored explicit argument %r": "不带值，去掉 %r",
    "one of the arguments %s is required": "这些参数要有一个：%s",
    "invalid %(type)s value: %(value)r": "不是有效的数（%(type)s）：%(value)r",
    "not allowed with argument %s": "不能与 %s 同用",
}
