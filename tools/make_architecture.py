"""Write docs/architecture.md, docs/architecture.zh-CN.md and docs/architecture.svg from the docstrings and imports.

    .venv/bin/python tools/make_architecture.py            write them; list missing translations
    .venv/bin/python tools/make_architecture.py --check    write nothing; exit code 1 if something is missing or out of date

The text above GENERATED is written by hand. Below it, each package is described by the first paragraph of its
docstring, and its files, in the order of "Read in this order: …", by the first sentence of theirs. For each path,
tools/architecture.zh-CN.json has the sentence and its Chinese: fill in the empty ones. A reworded sentence keeps its Chinese
and is listed for review. The diagram shows which package imports which.
"""

import ast
import json
import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE, DOCS = ROOT / "src" / "qkv", ROOT / "docs"
PAGES = {"en": DOCS / "architecture.md", "zh": DOCS / "architecture.zh-CN.md"}
DIAGRAM = DOCS / "architecture.svg"
CHINESE = Path(__file__).with_name("architecture.zh-CN.json")
GENERATED = "<!-- Generated from here on by tools/make_architecture.py from the docstrings. -->\n"
WITHOUT_FILES = "doctor"  # only its packages are listed

# Where the diagram shows each package: row from the bottom, column. Arrows lead down.
POSITIONS = {
    "commands": (8, 2.1),
    "lab": (7, 0.95),
    "studio": (7, 2.1),
    "lessons": (7, 4.0),
    "train": (6, 0.95),
    "draw": (6, 2.5),
    "evaluation": (5, 1.5),
    "tracing": (5, 2.5),
    "doctor": (5, 4.0),
    "formats": (4, 0.5),
    "generation": (4, 1.85),
    "model": (3, 2.35),
    "mixers": (2, 2.95),
    "library": (1, 0.0),
    "text": (1, 0.95),
    "attention": (1, 2.95),
    "sandbox": (1, 4.0),
    "disk": (0, 1.25),
    "process": (0, 2.35),
    "terminal": (0, 3.3),
    "web": (0, 4.25),
}
WIDTH, HEIGHT, COLUMN, ROW, MARGIN = 112, 34, 132, 78, 16


def packages() -> list[str]:
    """Return the packages directly below qkv, sorted."""
    return sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


@cache
def imports() -> dict[tuple[str, str], list[str]]:
    """Return the files behind each pair (package, package that it imports), also of imports inside functions."""
    files: dict[tuple[str, str], set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        name = file.relative_to(SOURCE)
        here = name.parts[0]
        for module in _imported_modules(ast.parse(file.read_text(encoding="utf-8")), ("qkv", *name.parent.parts)):
            there = module.split(".")[1] if module.startswith("qkv.") else here
            if here != there and {here, there} <= {*packages()}:
                files.setdefault((here, there), set()).add(name.as_posix())
    return {pair: sorted(files) for pair, files in sorted(files.items())}


def _imported_modules(tree: ast.Module, package: tuple[str, ...]) -> list[str]:
    modules = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parent = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*parent, *([node.module] if node.module else [])])
            modules += [f"{module}.{alias.name}" for alias in node.names]
    return modules


def reachable(arrows: dict[str, set[str]], start: str) -> set[str]:
    """Return what the arrows lead to from `start`, directly or not.

    >>> sorted(reachable({"a": {"b"}, "b": {"c"}}, "a"))
    ['b', 'c']
    """
    visited: set[str] = set()
    stack = [*arrows.get(start, ())]
    while stack:
        if (name := stack.pop()) not in visited:
            visited.add(name)
            stack += arrows.get(name, ())
    return visited


def arrows() -> list[tuple[str, str]]:
    """Return the imports that lead down in the diagram, without those that other arrows imply."""
    down: dict[str, set[str]] = {name: set() for name in POSITIONS}
    for here, there in imports():
        if here in POSITIONS and there in POSITIONS and POSITIONS[there][0] < POSITIONS[here][0]:
            down[here].add(there)
    implied = {here: {far for near in down[here] for far in reachable(down, near)} for here in down}
    return [(here, there) for here in down for there in sorted(down[here] - implied[here])]


def diagram() -> str:
    """Return the SVG of packages and arrows, on a ground of its own so that it reads on light and dark pages."""
    top = max(row for row, _ in POSITIONS.values())
    corners = {
        name: (MARGIN + column * COLUMN, MARGIN + (top - row) * ROW) for name, (row, column) in POSITIONS.items()
    }
    width = max(x for x, _ in corners.values()) + WIDTH + MARGIN
    height = max(y for _, y in corners.values()) + HEIGHT + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" text-anchor="middle">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#5b6b7f"/></marker></defs>',
        '<rect width="100%" height="100%" rx="10" fill="#fbfbf9"/>',
        '<g fill="none" stroke="#5b6b7f" stroke-width="1.3" marker-end="url(#tip)">',
    ]
    for here, there in arrows():
        (x, y), (x2, y2) = corners[here], corners[there]
        x, y, x2 = x + WIDTH / 2, y + HEIGHT, x2 + WIDTH / 2
        bend = ROW * 0.45
        lines.append(
            f'<path d="M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"'
            f' marker-end="url(#tip)"><title>{here} imports {there}</title></path>'
        )
    lines.append("</g>")
    for name, (x, y) in corners.items():
        lines.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#e4ecf7" stroke="#37598c"/>'
            f'<text x="{x + WIDTH / 2:.0f}" y="{y + 22:.0f}" fill="#14233b">{name}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def docstring(path: Path) -> str:
    """Return the docstring of a file, or of a package by its folder."""
    file = path / "__init__.py" if path.is_dir() else path
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def first_paragraph(text: str) -> str:
    """Return it on one line.

    >>> first_paragraph("One.\\n\\nTwo.")
    'One.'
    """
    return " ".join(text.split("\n\n")[0].split())


def first_sentence(text: str) -> str:
    """Return it on one line.

    >>> first_sentence("Masks, e.g. causal ones.\\nTrue = may attend.")
    'Masks, e.g. causal ones.'
    """
    return re.split(r"(?<=\.)\s+(?=[A-Z`])", first_paragraph(text))[0]


def reading_order(folder: Path) -> list[str]:
    """Return the names in the paragraph "Read in this order: …" of a package's docstring."""
    order = re.search(r"^Read in this order: .*?(?=\n\n|\Z)", docstring(folder), re.MULTILINE | re.DOTALL)
    return re.findall(r"`(\w+)`", order[0]) if order else []


def contents(folder: Path) -> set[str]:
    """Return the names of the modules and packages in a package."""
    modules = {path.stem for path in folder.glob("[!_]*.py")}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


def reading_order_problems() -> list[str]:
    """Return what is missing, twice or not there in the reading orders."""
    problems = []
    for file in sorted(SOURCE.rglob("__init__.py")):
        folder = file.parent
        if WITHOUT_FILES in folder.relative_to(SOURCE).parts:
            continue
        names, there = reading_order(folder), contents(folder)
        where = file.relative_to(ROOT)
        problems += [f"{where}: its reading order lacks `{name}`" for name in sorted(there - {*names})]
        problems += [
            f"{where}: its reading order names `{name}`, which is not there" for name in names if name not in there
        ]
        problems += [
            f"{where}: its reading order names `{name}` twice" for name in sorted({*names}) if names.count(name) > 1
        ]
    return problems


def _paths_in_order(folder: Path) -> list[Path]:
    there = contents(folder)
    names = dict.fromkeys([*(name for name in reading_order(folder) if name in there), *sorted(there)])
    return [folder / name if (folder / name).is_dir() else folder / f"{name}.py" for name in names]


def entries(folder: Path) -> list[tuple[Path, str]]:
    """Return a package and all in it in reading order, each with its sentence in English; modules before packages."""
    pairs = [(folder, first_paragraph(docstring(folder)))]
    inside = _paths_in_order(folder)
    if WITHOUT_FILES not in folder.relative_to(SOURCE).parts:
        pairs += [(path, first_sentence(docstring(path))) for path in inside if path.is_file()]
    return pairs + [entry for path in inside if path.is_dir() and folder != SOURCE for entry in entries(path)]


def all_entries() -> list[tuple[Path, str]]:
    """Return the entries of every package, and of qkv itself last."""
    parts = [path for path in _paths_in_order(SOURCE) if path.is_dir()]
    return [entry for path in [*parts, SOURCE] for entry in entries(path)]


def relative(path: Path) -> str:
    """Return a path below src/qkv as the key of its translation."""
    return path.relative_to(SOURCE).as_posix()


def listing(translations: dict[str, list[str]], lang: str) -> str:
    """Return the packages and their files as Markdown; what has no translation stays English."""
    lines: list[str] = []
    for path, english in all_entries():
        sentence = translations.get(relative(path), ["", ""])[1] or english
        if path.is_dir():
            parts = path.relative_to(SOURCE).parts
            lines += ["", f"{'#' * max(len(parts), 1)}## {'/'.join(parts) or 'qkv'}", "", sentence, ""]
        else:
            lines.append(f"- `{path.name}`{'：' if lang == 'zh' else ': '}{sentence}")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


def update_translations(before: dict[str, list[str]]) -> tuple[dict[str, list[str]], list[str]]:
    """Return [sentence, translation] for each path, and the paths whose sentence changed since it was translated."""
    after = {relative(path): [english, before.get(relative(path), ["", ""])[1]] for path, english in all_entries()}
    return after, [path for path, pair in after.items() if path in before and before[path][0] != pair[0]]


def main(arguments: list[str]) -> int:
    before: dict[str, list[str]] = json.loads(CHINESE.read_text(encoding="utf-8"))
    translations, reworded = update_translations(before)
    expected = {DIAGRAM: diagram(), CHINESE: json.dumps(translations, ensure_ascii=False, indent=1) + "\n"}
    for lang, page in PAGES.items():
        head, marker, _ = page.read_text(encoding="utf-8").partition(GENERATED)
        expected[page] = head + marker + "\n" + listing(translations if lang == "zh" else {}, lang)
    problems = [f"not in the diagram: {name}" for name in packages() if name not in POSITIONS]
    problems += [
        *reading_order_problems(),
        *(f"not translated: {path}: {english}" for path, (english, chinese) in translations.items() if not chinese),
    ]
    for file, text in expected.items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            if "--check" in arguments:
                problems.append(f"out of date: {file.relative_to(ROOT)}")
            else:
                file.write_text(text, encoding="utf-8")
    for path in reworded:
        print(f"read again: {path}: {translations[path]}, was {before[path][0]!r}")
    print("\n".join([*problems, f"{len(translations)} sentences, {len(problems)} to look at"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
