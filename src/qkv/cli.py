"""The command line: `qkv VERB …`. Each verb is a file in commands/, imported only when it is called.

argparse, because its few words can all be said in Chinese, and `qkv --help` answers at once.
"""

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Sequence

from . import __version__, words
from .words import both

# verb: (example, English, 中文)
VERBS: dict[str, tuple[str, str, str]] = {
    "steps": (
        'qkv steps "我 爱 北京"',
        "attention computed step by step, with true numbers",
        "一步一步计算注意力，每个数都是真的",
    ),
    "masks": (
        "qkv masks causal window:3 --n 12",
        "draw who may look at whom",
        "画出谁可以看谁",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code: 0 done, 2 a mistake of the user's, told in a sentence."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    lang = words.from_arguments(list(arguments))
    os.environ["QKV_LANG"] = lang  # so that everything this command prints speaks it
    _teach_argparse(lang)
    _print_unicode()
    try:
        return _run(arguments)
    except BrokenPipeError:  # `qkv … | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print(both("\nstopped", "\n已停止"), file=sys.stderr)
        return 130
    except words.Problem as problem:
        print(words.say("problem", sentence=problem.say()), file=sys.stderr)
    except (ValueError, OSError, MemoryError) as error:
        sentence = str(error) or type(error).__name__
        if isinstance(error, MemoryError):
            sentence = both(
                "not enough memory for this; try less text or fewer dimensions", "内存不够：请减少文本或维度"
            )
            print(words.say("problem", sentence=sentence), file=sys.stderr)
        else:
            print(words.say("problem.english", sentence=sentence), file=sys.stderr)
    return 2


def _run(arguments: Sequence[str]) -> int:
    verb = next((word for word in arguments if not word.startswith("-")), None) if arguments else None
    if arguments and arguments[0] == "--version":
        print(f"qkv {__version__}")
        return 0
    rest = [word for word in arguments if word != verb] if verb is None else list(arguments)
    if rest[:1] == ["--lang"]:  # before the verb it is allowed too
        rest = rest[2:]
        verb = next((word for word in rest if not word.startswith("-")), None)
    elif rest and rest[0].startswith("--lang="):
        rest = rest[1:]
    if verb is None or (rest and rest[0] in ("-h", "--help")):
        unknown = [word for word in rest if word not in ("-h", "--help")]
        if verb is None and unknown:
            raise words.Problem("problem.option", option=unknown[0])
        print(_overview())
        return 0
    if verb not in VERBS:
        near = difflib.get_close_matches(verb, VERBS, n=1)
        raise words.Problem("problem.verb", verb=verb, verbs=", ".join(VERBS), near=f"qkv {near[0]}" if near else "qkv")
    command = importlib.import_module(f"qkv.commands.{verb}")
    _, english, chinese = VERBS[verb]
    parser = argparse.ArgumentParser(
        prog=f"qkv {verb}",
        description=both(english, chinese),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join([both("examples:", "例子："), *("  " + line for line in command.EXAMPLES)]),
        allow_abbrev=False,
    )
    command.arguments(parser)
    parser.add_argument("--lang", choices=["en", "zh"], help=both("language of the output", "输出的语言"))
    rest.remove(verb)
    return command.run(parser.parse_args(rest)) or 0


def _overview() -> str:
    lines = [
        both(
            "qkv: from softmax(QKᵀ/√d)V to a Transformer you can look into.",
            "qkv：从 softmax(QKᵀ/√d)V 到可以看进去的 Transformer。",
        ),
        "",
    ]
    for verb, (example, english, chinese) in VERBS.items():
        lines += [f"  {verb:10}{both(english, chinese)}", f"  {'':10}{example}", ""]
    lines.append(
        both(
            "In Python: from qkv import attend, masks, MultiHeadAttention",
            "在 Python 里：from qkv import attend, masks, MultiHeadAttention",
        )
    )
    lines.append(
        both(
            "More on a verb: qkv VERB --help    中文: --lang zh",
            "某个动词的说明：qkv 动词 --help    English: --lang en",
        )
    )
    return "\n".join(lines)


def _print_unicode() -> None:
    """Windows consoles and LANG=C write ASCII by default; √, ■ and 汉字 need UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and (stream.encoding or "").lower().replace("-", "") != "utf8":
            stream.reconfigure(encoding="utf-8", errors="replace")


def _teach_argparse(lang: str) -> None:
    """argparse looks its few words up with gettext: give it ours. (Only in this process, which is ours.)"""
    known = ARGPARSE if lang == "zh" else {}
    argparse._ = lambda message: known.get(message, message)  # type: ignore[attr-defined]
    argparse.ngettext = lambda one, many, n: known.get(one, one if n == 1 else many)  # type: ignore[attr-defined]


ARGPARSE = {
    "usage: ": "用法：",
    "positional arguments": "参数",
    "options": "选项",
    "show this help message and exit": "显示这段说明",
    "%(prog)s: error: %(message)s\n": "%(prog)s：%(message)s\n",
    "unrecognized arguments: %s": "不认识的参数：%s",
    "expected one argument": "后面要有一个值",
    "expected at least one argument": "后面至少要有一个值",
    "the following arguments are required: %s": "缺少参数：%s",
    "argument %(argument_name)s: %(message)s": "参数 %(argument_name)s：%(message)s",
    "invalid choice: %(value)r (choose from %(choices)s)": "不能是 %(value)r（可选：%(choices)s）",
    "invalid %(type)s value: %(value)r": "不是有效的数（%(type)s）：%(value)r",
    "not allowed with argument %s": "不能与 %s 同用",
}
