"""What the pages show is what the program prints, and what they name is there.

How a page is read, section by section (from one heading to the next):

- a ```console block holds `$ qkv …` lines, each followed by its output; a line `…` stands for lines left out;
- a ```json block is examples/matrices.json, which a command of its section reads;
- a ```python block runs by itself, and what it prints is the ```text block of its section, before or after it;
- other blocks (sh, bat, a tree) are not run.

`python -m tests.test_readme` writes the outputs of today into the pages; look at the difference before keeping it.
"""

import contextlib
import difflib
import io
import os
import pkgutil
import re
import shlex
from pathlib import Path
from unittest import mock

import pytest

from qkv.cli import VERBS, main
from tests.laws.test_options import parsers
from tools.book import reference

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 220  # lines of a README: what goes further stands in docs/
PAGES_WITH_OUTPUT = [
    name + suffix for name in ("README", "docs/guide", "docs/mixers", "CONTRIBUTING") for suffix in (".md", ".zh-CN.md")
]  # are run
ENGLISH = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in (ROOT, ROOT / "docs")
    for path in folder.glob("*.md")
    if not path.name.endswith(".zh-CN.md") and path.name != "LOG.md"  # a diary, in English alone
)
PAGES = [page for name in ENGLISH for page in (name, name.removesuffix(".md") + ".zh-CN.md")]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOVED = {"docs/house.md", "docs/house.zh-CN.md"}  # only lead to the page of today
GAP = "…"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def sections(text: str) -> list[str]:
    """The text cut before each heading; `#` inside a block is a comment and no heading."""
    cuts, inside = [0], False
    for line in re.finditer(r"^.*$", text, re.MULTILINE):
        inside ^= line[0].startswith("```")
        if line[0].startswith("#") and not inside:
            cuts.append(line.start())
    return [text[a:b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def run_command(line: str) -> str:
    """What `qkv …` prints where nobody chose a language; in this process, which has torch already."""
    name, *arguments = shlex.split(line)
    assert name == "qkv", f"only qkv is run here: {line}"
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with mock.patch.dict(os.environ, LANG="C.UTF-8", COLUMNS="100"), contextlib.chdir(ROOT):
        for variable in ("QKV_LANG", "LC_ALL", "LC_MESSAGES", "LANGUAGE"):
            os.environ.pop(variable, None)
        with contextlib.redirect_stdout(printed):
            code = main(arguments)
    assert code == (1 if arguments[0] == "check" else 0)  # a check that finds a mistake says so by its exit code
    printed.seek(0)
    return tidy(printed.read())


def run_python(code: str, page: str) -> str:
    """What the lines print for a reader of that page; in this process, which has torch already."""
    printed = io.StringIO()
    lang = "zh" if page.endswith(".zh-CN.md") else "en"
    with mock.patch.dict(os.environ, QKV_LANG=lang), contextlib.redirect_stdout(printed):
        exec(compile(code, "README", "exec"), {"__name__": "__main__"})
    return tidy(printed.getvalue())


def tidy(output: str) -> str:
    """Without blanks at the ends of lines and empty lines at the end, which an editor may take out."""
    return "\n".join(line.rstrip() for line in output.rstrip().split("\n"))


def commands(block: str) -> list[tuple[str, str]]:
    """A console block as pairs (what is typed after `$ `, what is shown below it)."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    assert not parts[0], f"a console block begins with `$ qkv …`, this one with {parts[0]!r}"
    return [(line, tidy(documented)) for line, documented in zip(parts[1::2], parts[2::2], strict=True)]


def stretches(documented: str) -> list[list[str]]:
    """The lines between the gaps."""
    groups: list[list[str]] = [[]]
    for line in documented.split("\n"):
        if line == GAP:
            groups.append([])
        else:
            groups[-1].append(line)
    return groups


def alike(a: list[str], b: list[str]) -> tuple[bool, float]:
    """Whether two stretches are the same, and if not, how near they are."""
    return a == b, sum(difflib.SequenceMatcher(None, x, y).quick_ratio() for x, y in zip(a, b, strict=True))


def fill(documented: str, output: str) -> str:
    """What is shown, as it reads in today's output: each stretch where it fits best after the one before it."""
    if GAP not in documented.split("\n"):
        return output
    lines, at, chunks = output.split("\n"), 0, []
    parts = stretches(documented)
    for i, part in enumerate(parts):
        starts = range(at, len(lines) - len(part) + 1)
        if i == 0:
            starts = range(1)  # no gap before it: it opens the output
        elif i == len(parts) - 1 and part:
            starts = range(len(lines) - len(part), len(lines) - len(part) + 1)
        best = max(starts, default=at, key=lambda k: alike(part, lines[k : k + len(part)]))
        chunks.append("\n".join(lines[best : best + len(part)]))
        at = best + len(part) if part else at
    return f"\n{GAP}\n".join(chunks).strip("\n")


def blocks(section: str, language: str) -> list[str]:
    return [body for kind, body in BLOCK.findall(section) if kind == language]


CONSOLE: dict[
    str, list[tuple[str, str]]
] = {}  # a command, and where what it prints is shown: README and guide may both
for name in PAGES_WITH_OUTPUT:
    for block in blocks(read(name), "console"):
        for line, documented in commands(block):
            CONSOLE.setdefault(line, []).append((name, documented))
PYTHON = [
    pytest.param(name, code, blocks(section, "text"), id=f"{name}: {section.splitlines()[0].strip('# ')}")
    for name in PAGES_WITH_OUTPUT
    for section in sections(read(name))
    for code in blocks(section, "python")
]


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("line", CONSOLE)
def test_a_command_prints_the_documented_output(line: str) -> None:
    output = run_command(line)
    assert [(page, fill(documented, output)) for page, documented in CONSOLE[line]] == CONSOLE[line]


@pytest.mark.parametrize(("page", "code", "documented"), PYTHON)
def test_python_prints_the_documented_output(page: str, code: str, documented: list[str]) -> None:
    assert [run_python(code, page)] == [tidy(text) for text in documented]


@pytest.mark.parametrize("name", ["docs/guide.md", "docs/guide.zh-CN.md"])
def test_the_printed_file_is_the_example_file(name: str) -> None:
    assert blocks(read(name), "json") == [read("examples/matrices.json")]
    assert "qkv steps --file examples/matrices.json" in read(name)


def test_no_example_stands_where_nothing_runs_it() -> None:
    kinds = {page: {kind for kind, _ in BLOCK.findall(read(page))} for page in PAGES}
    assert {page for page in PAGES if "console" in kinds[page] or {"python", "text"} <= kinds[page]} == set(
        PAGES_WITH_OUTPUT
    )
    assert len(CONSOLE) >= 12 and len(PYTHON) == 18


@pytest.mark.parametrize("name", PAGES_WITH_OUTPUT[:4])
def test_the_page_locates_the_command(name: str) -> None:
    assert "`.venv/bin/qkv`" in read(name) and "source .venv/bin/activate" in read(name)


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_a_readme_is_short(name: str) -> None:
    text = read(name)
    assert text.count("\n") <= LONGEST and text.count("![") == 1
    assert len(re.findall("^### ", text, re.MULTILINE)) == 5  # learn, check, build, train, see


def headings(text: str) -> list[str]:
    return [part.splitlines()[0] for part in sections(text) if part.startswith("#")]


@pytest.mark.parametrize("name", ENGLISH)
def test_both_languages_have_the_same_blocks_and_headings(name: str) -> None:
    twin = name.removesuffix(".md") + ".zh-CN.md"
    english, chinese = read(name), read(twin)
    assert [kind for kind, _ in BLOCK.findall(english)] == [kind for kind, _ in BLOCK.findall(chinese)]
    assert [line.count("#") for line in headings(english)] == [line.count("#") for line in headings(chinese)]
    assert f"]({Path(twin).name})" in english and f"]({Path(name).name})" in chinese


def anchors(text: str) -> set[str]:
    """How GitHub calls the headings of a page in links."""
    return {re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in headings(text)}


@pytest.mark.parametrize("name", PAGES)
def test_everything_that_is_named_exists(name: str) -> None:
    text = BLOCK.sub("", read(name))
    named = re.findall(r"`((?:tests|benchmarks|examples|src|tools|docs|\.github|\.ci)/[\w./-]+)`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []
    for path, anchor in re.findall(r"\]\(([\w./-]*)(?:#([^)\s]*))?\)", text):
        target = (ROOT / name).parent / path if path else ROOT / name
        if target.parent == ROOT / "docs" and target.name.split(".")[0] in reference.PAGES:
            continue  # made when the book is built
        assert target.exists(), path
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), anchor


def typed(text: str) -> list[tuple[str, list[str]]]:
    """The commands that a page shows without running them, in blocks, indented or in a line: verb, options."""
    inline = re.findall(r"`(qkv [^`\n]+)`", BLOCK.sub("", text))
    lines = re.findall(r"^ *(?:\S+ \| |\.venv\S*)?(qkv [^#\n]+)", text, re.MULTILINE)
    matches = [re.match(r"qkv ([a-z]+)(.*)", line) for line in inline + lines]
    return [(m[1], re.findall(r"(?<![\w-])--[a-z][a-z-]*", m[2])) for m in matches if m]


@pytest.mark.parametrize("name", PAGES)
def test_a_command_that_is_named_can_be_typed(name: str) -> None:
    for verb, options in typed(read(name)):
        if verb == "help":  # qkv help VERB
            continue
        assert verb in VERBS, verb
        if verb != "lab":  # its experiments have sizes of their own: tests/lab/test_docs.py
            valid = {option for _, parser in parsers(verb) for a in parser._actions for option in a.option_strings}
            assert set(options) <= valid | {"--lang"}, verb


@pytest.mark.parametrize("name", PAGES)
def test_python_that_is_named_is_there(name: str) -> None:
    text = read(name)
    for line in re.findall(r"from qkv[\w.]* import \w+(?:, \w+)*", text):
        exec(line, {})
    if not name.startswith("docs/check"):  # where qkv is a tensor of somebody
        for path in re.findall(r"(?<![\w./-])qkv(?:\.[a-z]\w*)+", text):
            pkgutil.resolve_name(path)


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_every_page_is_linked(name: str) -> None:
    """From the README, following links."""
    visited, pending = set[str](), [name]
    while pending:
        page = pending.pop()
        if page not in visited and page in PAGES:
            visited.add(page)
            linked = re.findall(r"\]\(([\w./-]+)(?:#[^)\s]*)?\)", BLOCK.sub("", read(page)))
            pending += [((ROOT / page).parent / path).resolve().relative_to(ROOT).as_posix() for path in linked]
    assert visited == set(PAGES) - MOVED


def proofs(name: str) -> list[list[str]]:
    """Of each promise of a table, what proves it."""
    rows = re.findall(r"^\|.*\|(.*)\|$", read(name), re.MULTILINE)[2:]
    return [re.findall(r"`([\w./]+)`|`make (?:\w+)", row) for row in rows]


def test_every_promise_has_its_proof_in_both_languages() -> None:
    english, chinese = proofs("docs/promises.md"), proofs("docs/promises.zh-CN.md")
    assert english == chinese and len(english) >= 40 and all(english)


def rewrite(name: str) -> None:
    """Put today's outputs in place of those shown."""

    def console(block: str) -> str:
        return "".join(f"$ {line}\n{fill(documented, run_command(line))}\n" for line, documented in commands(block))

    def section(text: str) -> str:
        printed = "".join(run_python(code, name) + "\n" for code in blocks(text, "python"))
        renderers = {"console": console, "text": lambda _: printed, "json": lambda _: read("examples/matrices.json")}
        return BLOCK.sub(lambda m: f"```{m[1]}\n{renderers.get(m[1], str)(m[2])}```", text)

    text = "".join(section(part) for part in sections(read(name)))
    (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for page in PAGES_WITH_OUTPUT:
        rewrite(page)


@pytest.mark.parametrize("name", [page for page in PAGES if page.startswith(("README", "docs/guide"))])
def test_no_two_runs_of_a_page_share_a_folder(name: str) -> None:
    """Who types a page's commands one after the other must not run into the run of an earlier one."""
    out: list[str] = []
    for line in re.findall(
        r"^(?:\$ )?(?:torchrun .* -m )?qkv train (?:lm|mlm|translate) .*", (ROOT / name).read_text("utf-8"), re.M
    ):
        words = shlex.split(line, comments=True)
        words = words[words.index("train") + 1 :]
        sources = ("--text", "--pairs", "--chat")
        source = next((words[words.index(option) + 1] for option in sources if option in words), "dates")
        base = f"-{words[words.index('--from') + 1]}" if "--from" in words else ""
        usual = f"runs/{words[0]}-{Path(source).stem}{base}{'-lora' * ('--lora' in words)}"
        out.append(words[words.index("--out") + 1] if "--out" in words else usual)
    assert len(out) == len(set(out)), out
