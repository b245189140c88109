"""Generated pages: the API from docstrings, the command line from its parsers, benchmarks, how to cite."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import qkv
from qkv.cli import VERBS
from qkv.i18n import say

from . import results
from .pages import command

ROOT = Path(__file__).resolve().parents[2]
# Public names by section, in the order of the page.
NAMES = {
    ("Learn", "学"): ("steps", "heatmap"),
    ("Check", "查"): ("check", "assert_correct"),
    ("Build", "搭"): ("attend", "masks", "SelfAttention", "MultiHeadAttention", "Config", "Transformer", "load"),
    ("See", "看"): ("trace", "record", "edit"),
}


def api(lang: str) -> str:
    """Return the API page: every public name with its signature, docstring and source."""
    introduction = {
        "en": "What `import qkv` offers, and what is promised to stay. Every example is run by the tests.",
        "zh": "`import qkv` 提供的全部名字，也是承诺保持不变的接口。每个例子都由测试运行。说明取自代码里的文档字符串，是英文的。",
    }[lang]
    missing = set(qkv.__all__) - {name for names in NAMES.values() for name in names}
    if missing:
        raise ValueError(f"the API page has no section for {sorted(missing)}: tools/book/reference.py")
    text = [f"# {('API', 'API（Python 接口）')[lang == 'zh']}\n\n{introduction}\n"]
    for section, names in NAMES.items():
        text.append(f"\n## {section[lang == 'zh']}\n")
        for name in names:
            text += _document(f"qkv.{name}", getattr(qkv, name), lang, 3)
    return "".join(text)


def _document(name: str, documented: Any, lang: str, level: int) -> Iterator[str]:
    anchor = name.lower().replace(".", "-")
    yield f"\n{'#' * level} `{name}` {{ #{anchor} }}\n\n"
    if inspect.ismodule(documented):
        yield _prose(inspect.getdoc(documented) or "")
        for inner in _public(documented):
            yield from _document(f"{name}.{inner}", getattr(documented, inner), lang, level + 1)
        return
    yield f"```python\n{name.rpartition('.')[2]}{_signature(documented)}\n```\n\n"
    yield _prose(inspect.getdoc(documented) or "")
    if inspect.isclass(documented):
        for inner, method in vars(documented).items():
            function = getattr(method, "__func__", method)
            if not inner.startswith("_") and inspect.isfunction(function) and inspect.getdoc(function):
                yield f"\n**`.{inner}{_signature(function)}`**\n\n{_prose(inspect.getdoc(function) or '')}"
    own = inspect.unwrap(documented)
    file = Path(inspect.getsourcefile(own) or "").resolve().relative_to(ROOT)
    line = inspect.getsourcelines(own)[1]
    yield f"\n{('Source', '源码')[lang == 'zh']}: `{file.as_posix()}:{line}`\n"


def _public(module: Any) -> list[str]:
    """Return the public functions and classes that a module defines, in source order."""
    mine = [
        name for name, documented in vars(module).items() if getattr(documented, "__module__", "") == module.__name__
    ]
    return [name for name in mine if not name.startswith("_") and callable(getattr(module, name))]


def _signature(documented: Any) -> str:
    """Return a signature as written in the source, without `self`."""
    written = _source_signature(documented)
    if len(written) < 90:
        return written
    inside, _, after = written[1:].rpartition(")")
    return "(\n    " + ",\n    ".join(_split(inside)) + f",\n){after}"


def _source_signature(documented: Any) -> str:
    function = documented.__init__ if inspect.isclass(documented) else inspect.unwrap(documented)
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:  # the constructor of a dataclass has no source
        return re.sub(r" -> None$", "", str(inspect.signature(documented)).replace("'", ""))
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    arguments = re.sub(r"^(self|cls)(, |$)", "", ast.unparse(definition.args))
    returns = (
        "" if definition.returns is None or inspect.isclass(documented) else f" -> {ast.unparse(definition.returns)}"
    )
    return re.sub(r"(?<=[\w\])'])=(?=[^=])", " = ", f"({arguments}){returns}")


def _split(arguments: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth = [""], 0
    for letter in arguments:
        depth += (letter in "[({") - (letter in "])}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _prose(docstring: str) -> str:
    """Return a docstring as Markdown: examples and indented lines become code blocks."""
    lines, output, inside = docstring.split("\n"), [], ""
    for line in [*lines, ""]:
        kind = "pycon" if line.startswith((">>>", "...")) or (inside == "pycon" and line.strip()) else ""
        kind = "text" if not kind and line.startswith("    ") else kind
        if kind != inside:
            output += ["```"] * bool(inside) + ([f"```{kind}"] if kind else [])
            inside = kind
        output.append(line[4:] if kind == "text" else line)
    return "\n".join(output).rstrip() + "\n"


def cli(lang: str) -> str:
    """Return the page of the command line: the help of every verb."""
    introduction = {
        "en": "What each verb says of itself: this page is its `--help`. `qkv VERB --help` says the same, `--lang zh` in Chinese.",
        "zh": "每个命令的说明，就是它的 `--help`。在终端里输入 `qkv VERB --help --lang zh` 会看到同样的内容。",
    }[lang]
    text = [f"# {('Command line', '命令行')[lang == 'zh']}\n\n{introduction}\n\n```text\n{_help([], lang)}\n```\n"]
    for verb, (_example, does) in VERBS.items():
        text.append(f"\n## qkv {verb}\n\n{say(does, lang)}\n\n```text\n{_help([verb], lang)}\n```\n")
        for inner in _subcommands(verb):
            text.append(f"\n### qkv {verb} {inner}\n\n```text\n{_help([verb, inner], lang)}\n```\n")
    return "".join(text)


def _help(words: list[str], lang: str) -> str:
    return command(" ".join(["qkv", *words, "--help"]), lang)


def _subcommands(verb: str) -> list[str]:
    """Return the subcommands of a verb."""
    parser = argparse.ArgumentParser()
    importlib.import_module(f"qkv.commands.{verb}").arguments(parser)
    return [
        name for action in parser._actions if isinstance(action, argparse._SubParsersAction) for name in action.choices
    ]


def cite(lang: str) -> str:
    """Return the page that shows CITATION.cff."""
    introduction = {
        "en": "If qkv helped your work, please cite it. The file below stands in the project as `CITATION.cff`; tools that manage references read it.",
        "zh": "如果 qkv 对你的工作有帮助，欢迎引用。下面就是项目里的 `CITATION.cff`，文献管理工具可以直接读取。",
    }[lang]
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8").strip()
    return f"# {('How to cite', '怎样引用')[lang == 'zh']}\n\n{introduction}\n\n```yaml\n{text}\n```\n"


PAGES: dict[str, Callable[[str], str]] = {"api": api, "cli": cli, "cite": cite, "benchmarks": results.page}
