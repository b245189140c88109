"""Bring src/qkv/locale/*.po up to date with the sentences that stand in the code.

    .venv/bin/python tools/words.py            new sentences in, old ones out; says what is left to translate
    .venv/bin/python tools/words.py --check    writes nothing; exit code 1 if something is missing, stale or wrong

A new language is a new file: an empty src/qkv/locale/de.po, then this. Any .po editor opens it.
"""

import ast
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

HERE = Path(__file__).resolve().parent.parent
SOURCE = HERE / "src" / "qkv"
LOCALE = SOURCE / "locale"
EXAMPLES = HERE / "examples"
# What takes a sentence: in i18n.py, its subclasses, and `say` of the page.
HEADER = re.compile(
    r'^"(Project|Report|POT|PO|Last|Language-Team|Generated).*\n|^# .* translations for PROJECT\.\n(#.*\n)*',
    re.MULTILINE,
)
KEYWORDS = "_ say echo Message Problem Notice Foreign NotFinite NoSuchToken NoTokenizer Untraceable InvalidAnswer Unread broken".split()
ARGUMENT = {**dict.fromkeys(KEYWORDS, 0), "Wrong": 2}  # which of its arguments is the sentence


def sentences() -> dict[str, list[str]]:
    """Every sentence that the code can say, and the files it stands in."""
    found: dict[str, list[str]] = {}
    for file in sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("*.js"), *EXAMPLES.glob("*.py")]):
        if file.is_relative_to(SOURCE / "lessons" / "exercises"):  # prose: pairs of texts
            continue
        for sentence in in_python(file) if file.suffix == ".py" else in_javascript(file):
            places = found.setdefault(sentence, [])
            home = SOURCE if file.is_relative_to(SOURCE) else HERE
            if (place := file.relative_to(home).as_posix()) not in places:
                places.append(place)
    return found


def in_python(file: Path) -> Iterator[str]:
    """Babel goes by tokens, and so misses what stands within an f-string and takes `say(NAMES["key"])` for "key"."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            at = ARGUMENT.get(ast.unparse(node.func).removeprefix("i18n."))
            sentence = node.args[at] if at is not None and len(node.args) > at else None
            if isinstance(sentence, ast.Constant) and isinstance(sentence.value, str) and sentence.value:
                yield sentence.value


def in_javascript(file: Path) -> Iterator[str]:
    """By how they stand there, `say(lang, "…"` and `mark("…"`: Babel misses a call within another's arguments."""
    for sentence in re.findall(r'\b(?:mark\(|say\([\w.]+,)\s*("(?:[^"\\\n]|\\.)*")', file.read_text(encoding="utf-8")):
        yield json.loads(sentence)


def names(sentence: str) -> set[str]:
    """The values that a sentence names, in braces or, where argparse says it, behind a %."""
    fields = (
        {name for _, name, _, _ in Formatter().parse(sentence) if name is not None} if "%(" not in sentence else set()
    )
    return fields | set(re.findall(r"%\(\w+\)\w|%[sr]", sentence))


def brought(file: Path, found: dict[str, list[str]]) -> Catalog:
    """The catalogue with the sentences of today, in the order of the files they stand in."""
    before = read(file)
    made = Catalog(locale=file.stem, charset="utf-8", fuzzy=False)
    for sentence, places in found.items():
        old = before.get(sentence)
        made.add(sentence, string=old.string if old else "", locations=[(place, None) for place in places])
    return made


def read(file: Path) -> Catalog:
    """A .po file."""
    with file.open("rb") as text:
        return read_po(text, locale=file.stem)


def wrong(file: Path, found: dict[str, list[str]]) -> list[str]:
    """What is missing, stale, or says other values than the English does."""
    there = {message.id: message.string for message in read(file) if message.id}
    told = [f"not translated: {sentence!r}" for sentence in found if not there.get(sentence)]
    told += [f"said nowhere any more: {sentence!r}" for sentence in there if sentence not in found]
    for sentence, said in there.items():
        if said and sentence in found and names(sentence) != names(said):
            told.append(f"other values: {sentence!r} names {sorted(names(sentence))}, {said!r} {sorted(names(said))}")
    return [f"{file.name}: {line}" for line in told]


def main(arguments: list[str]) -> int:
    found = sentences()
    told = []
    for file in sorted(LOCALE.glob("*.po")):
        if "--check" not in arguments:
            made = io.BytesIO()
            write_po(made, brought(file, found), width=120, include_lineno=False, ignore_obsolete=True)
            # Dates and addresses of the header would change at every run, and say nothing.
            file.write_text(HEADER.sub("", made.getvalue().decode()), encoding="utf-8")
        told += wrong(file, found)
    print("\n".join([*told, f"{len(found)} sentences, {len(told)} to look at"]))
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
